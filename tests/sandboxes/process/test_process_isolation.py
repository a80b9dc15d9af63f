"""What the walls of process sandboxes hold, what is refused, and what is said of the rest."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

import rollouthub
from rollouthub.errors import ConfigError, HubError, SandboxError
from rollouthub.hosting.local.episode_sandboxes import open_provider
from rollouthub.sandbox import Resources, Sandbox, SandboxSpec
from rollouthub_sandboxes.process import process_provider
from rollouthub_sandboxes.process.visible_paths import this_machine

SPEC = SandboxSpec()


def is_running(process: Path) -> bool:
    """Whether a process of this machine is there, and no zombie."""
    try:
        return "zombie" not in (process / "status").read_text()
    except OSError:
        return False


def folders_of(name: str) -> list[Path]:
    """The folders that this machine has for a sandbox."""
    return list(Path(tempfile.gettempdir()).glob(f"rollouthub-process-*/{name}"))


def processes_of(name: str) -> list[Path]:
    """The processes of this machine whose command names a sandbox."""
    found: list[Path] = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if name in (entry / "cmdline").read_text(errors="replace"):
                found.append(entry)
    return found


@pytest.fixture
async def walled(namespaces: None) -> AsyncGenerator[Sandbox]:
    """A sandbox behind namespaces; skipped aloud where they cannot be had."""
    async with process_provider(("namespaces",)) as provider, provider.open(SPEC) as sandbox:
        yield sandbox


@pytest.fixture
async def unwalled() -> AsyncGenerator[Sandbox]:
    """A sandbox behind limits alone."""
    async with process_provider(("limits",)) as provider, provider.open(SPEC) as sandbox:
        yield sandbox


async def test_nothing_of_the_hub_and_of_its_users_is_visible(walled: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "answers").write_text("42")
    places = [
        *(str(tmp_path), __file__, str(Path(rollouthub.__file__).parent), str(Path.cwd())),
        *("/home", "/var", "/sys", "/run", "/etc/shadow", "/usr/src/app", "/dev/vda", "/dev/mem"),
    ]
    program = (
        f"import os; print([path for path in {places!r} if os.path.exists(path) and os.path.realpath(path) != '/'])"
    )
    done = await walled.exec(["python3", "-c", program])
    assert done.stdout.text == "[]\n", done.stderr.text


async def test_installed_packages_are_not_visible_to_programs(walled: Sandbox) -> None:
    program = (
        "import importlib.util as u; print([n for n in 'pip rollouthub pytest anyio yaml'.split() if u.find_spec(n)])"
    )
    assert (await walled.exec(["python3", "-c", program])).stdout.text == "[]\n"


async def test_the_system_cannot_be_changed(walled: Sandbox) -> None:
    attempts = "for place in / /usr /usr/bin /etc /dev /proc /lib; do touch $place/planted && echo $place; done"
    done = await walled.exec(attempts)
    assert done.stdout.text == ""
    assert (await walled.exec(["mount", "-o", "remount,rw", "/"])).exit_status != 0
    assert (await walled.exec(["sh", "-c", "echo x > /proc/sys/kernel/hostname"])).exit_status != 0


async def test_no_other_process_is_visible(walled: Sandbox) -> None:
    reach = f"kill -9 {os.getpid()}; cat /proc/1/environ /proc/1/mem; ls -d /proc/[0-9]*"
    done = await walled.exec(reach)
    assert len(done.stdout.text.split()) < 6
    assert "/proc/1" in done.stdout.text.split()
    assert walled.is_alive


async def test_writable_folders_are_of_the_size_that_was_asked(walled: Sandbox) -> None:
    said = (await walled.exec("df -P -B1 . /tmp | awk 'NR > 1 {print $2}'")).stdout.text.split()
    assert said == [str(SPEC.resources.disk_bytes)] * 2


async def test_further_folders_are_had_where_they_are_asked_for(walled: Sandbox) -> None:
    async with process_provider(("namespaces",)) as provider:
        spec = SandboxSpec(workdir="/app/code", scratch=("/tmp", "/logs"), environment={"MODE": "x"})
        async with provider.open(spec) as sandbox:
            assert sandbox.workdir == "/app/code"
            done = await sandbox.exec("touch a /tmp/a /logs/a && pwd && echo $MODE")
            assert done.stdout.text == "/app/code\nx\n", done.stderr.text


async def test_the_interpreter_is_the_one_below_the_hubs(walled: Sandbox) -> None:
    asked = "import sys; print(sys.version_info[:3], sys.base_prefix)"
    done = await walled.exec(["python3", "-c", asked])
    assert done.stdout.text == f"{sys.version_info[:3]} {this_machine().python.parent}\n"
    assert this_machine().hidden


async def test_without_walls_a_sandbox_has_a_folder_and_a_user_of_its_own(unwalled: Sandbox) -> None:
    assert unwalled.ref.walls == "limits"
    assert unwalled.ref.network == "host"
    assert (await unwalled.exec("stat -c %a .")).stdout.text == "700\n"
    if os.geteuid() == 0:
        assert unwalled.ref.user == "its own"
        done = await unwalled.exec(f"id -u; cat /proc/{os.getpid()}/environ; kill -0 {os.getpid()}")
        assert int(done.stdout.text) > 1 << 16


async def test_without_walls_a_sandbox_gets_its_processes_whatever_else_its_user_starts() -> None:
    if os.geteuid() == 0:
        pytest.skip("root gives each sandbox a user of its own, whose processes alone are counted")
    spec = SandboxSpec(resources=Resources(pids=8))
    async with process_provider(("limits",)) as provider:
        async with provider.open(spec) as sandbox:
            await sandbox.exec("true")
        others = [await anyio.open_process(["sleep", "600"]) for _ in range(100)]
        try:
            async with provider.open(spec) as sandbox:
                done = await sandbox.exec("sleep 0 & wait; echo forked")
        finally:
            for other in others:
                other.kill()
                await other.wait()
    assert done.stdout.text == "forked\n", done.stderr.text


async def test_without_walls_no_command_kills_the_supervisor_and_nothing_is_left_when_it_is_killed() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a sandbox a user of its own, by which what is left is found")
    async with process_provider(("limits",)) as provider, provider.open(SPEC) as sandbox:
        started = await sandbox.exec("setsid sleep 1000 & echo $!")
        victim = Path("/proc") / started.stdout.text.strip()
        assert victim.exists()
        supervisor = int((await sandbox.exec("awk '/^PPid/ {print $2}' /proc/$PPID/status")).stdout.text)
        assert (await sandbox.exec(f"kill -9 {supervisor}")).exit_status != 0
        assert sandbox.is_alive
        os.kill(supervisor, signal.SIGKILL)
        with anyio.fail_after(30), pytest.raises(SandboxError):
            while True:
                await sandbox.exec("true")
    assert not is_running(victim)


async def test_folders_and_processes_go_with_their_sandbox(namespaces: None) -> None:
    async with process_provider(("namespaces",)) as provider, provider.open(SPEC) as sandbox:
        name = sandbox.id
        assert folders_of(name)
        assert processes_of(name)
    assert folders_of(name) == []
    assert processes_of(name) == []


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (SandboxSpec(image="debian:bookworm-slim"), "image 'debian:bookworm-slim'"),
        (SandboxSpec(network="bridge"), "network='bridge'"),
        (SandboxSpec(profile="root-compat"), "profile 'root-compat'"),
        (SandboxSpec(user="root"), "user 'root'"),
        (SandboxSpec(has_writable_root=True), "a writable root"),
        (SandboxSpec(workdir="/usr/app"), "'/usr/app'"),
        (SandboxSpec(workdir="relative"), "'relative'"),
        (SandboxSpec(scratch=("/tmp/../etc",)), "'/tmp/../etc'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_only_a_container_has_is_refused_by_name(spec: SandboxSpec, named: str) -> None:
    async with process_provider() as provider:
        for _ in range(2):
            with pytest.raises(ConfigError, match="sandbox=docker") as caught:
                await provider.prepare(spec)
            assert named in str(caught.value)
        with pytest.raises(ConfigError, match="sandbox=docker"):
            async with provider.open(spec):
                pytest.fail("it was to be refused")


async def test_without_walls_a_folder_at_a_path_of_its_own_is_refused() -> None:
    async with process_provider(("limits",)) as provider:
        for spec in (SandboxSpec(workdir="/app"), SandboxSpec(scratch=("/logs",))):
            with pytest.raises(ConfigError, match="install bubblewrap"):
                await provider.prepare(spec)
            with pytest.raises(ConfigError, match="install bubblewrap"):
                async with provider.open(spec):
                    pytest.fail("it was to be refused")


async def test_what_the_walls_do_not_hold_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async with process_provider() as provider:
        await provider.prepare(SPEC)
        async with provider.open(SPEC) as sandbox:
            await provider.prepare(SPEC)
            (record,) = [record for record in caplog.records if record.name.startswith("rollouthub_sandboxes.process")]
            assert record.levelname == "WARNING"
            assert sandbox.ref.walls in record.getMessage()
            assert "`hub doctor`" in record.getMessage()


async def test_limits_are_taken_where_bubblewrap_does_not_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("prlimit", "setpriv"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    async with process_provider() as provider, provider.open(SPEC) as sandbox:
        assert sandbox.ref.walls == "limits"
        assert (await sandbox.exec("echo works")).stdout.text == "works\n"
    async with process_provider(("namespaces",)) as provider:
        with pytest.raises(SandboxError, match="uid map: Permission denied"):
            await provider.prepare(SPEC)


async def test_tools_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    async with process_provider() as provider:
        with pytest.raises(SandboxError, match="bwrap cannot be found; install bubblewrap") as caught:
            await provider.prepare(SPEC)
    assert not caught.value.retryable


async def test_a_snapshot_of_another_provider_is_refused() -> None:
    class Foreign:
        id = "theirs"
        changed = ()

        async def restored(self, paths: Sequence[str]) -> "Foreign":
            return self

        async def discard(self) -> None: ...

    async with process_provider() as provider:
        with pytest.raises(HubError, match="'theirs'"):
            async with provider.open(SPEC, snapshot=Foreign()):
                pytest.fail("it was to be refused")


async def test_many_sandboxes_open_at_once() -> None:
    users: set[str] = set()

    async with process_provider() as provider:

        async def use() -> None:
            async with provider.open(SPEC) as sandbox:
                await sandbox.write_file("own", sandbox.id.encode())
                assert (await sandbox.exec("cat own")).stdout.text == sandbox.id
                users.add(sandbox.id)

        async with anyio.create_task_group() as group:
            for _ in range(64):
                group.start_soon(use)
    assert len(users) == 64


async def test_it_is_found_by_its_name() -> None:
    async with open_provider("process") as provider:
        assert provider.name == "process"
