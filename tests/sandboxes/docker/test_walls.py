"""The walls as they are seen from inside, and as the engine tells of them."""

import pytest

from rollouthub.errors import ConfigError, SandboxError
from rollouthub.sandbox import Resources, Sandbox, SandboxSpec
from rollouthub_sandboxes.docker.provider import DockerProvider
from rollouthub_sandboxes.engine.engine import Engine


async def said(sandbox: Sandbox, script: str, user: str | None = None) -> str:
    """What a script prints."""
    done = await sandbox.exec(script, user=user)
    assert done.exit_status == 0, done.stderr.text
    return done.stdout.text


async def test_a_hardened_command_has_no_privileges(sandbox: Sandbox) -> None:
    status = dict(line.split(":\t", 1) for line in (await said(sandbox, "cat /proc/self/status")).splitlines())
    assert {name: int(status[name], 16) for name in status if name.startswith("Cap")} == dict.fromkeys(
        ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0
    )
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert status["Uid"].split() == status["Gid"].split() == ["65534"] * 4
    assert await said(sandbox, "ulimit -c") == "0\n"


async def test_only_its_own_folders_can_be_written(sandbox: Sandbox, engine: Engine) -> None:
    folders = "/ /etc /usr /home /var/tmp /dev /.rollouthub /workspace /tmp"
    can = f"for f in {folders}; do (: > $f/x) 2>/dev/null && echo $f; done"
    podmans = ["/var/tmp"] if engine.kind == "podman" else []
    assert (await said(sandbox, f"{can}; :")).split() == [*podmans, "/workspace", "/tmp"]
    assert any("/var/tmp" in limitation for limitation in sandbox.ref.limitations) is bool(podmans)
    options = await said(sandbox, "grep -E ' (/workspace|/tmp) ' /proc/mounts")
    assert all("nosuid" in line and "nodev" in line and "noexec" not in line for line in options.splitlines())


async def test_it_has_no_network_but_its_own_loopback(sandbox: Sandbox) -> None:
    assert (await said(sandbox, "ls /sys/class/net")).split() == ["lo"]
    assert (await said(sandbox, "cat /proc/net/route")).strip().count("\n") == 0


async def test_the_kernel_holds_the_limits(sandbox: Sandbox, engine: Engine) -> None:
    inspected = await engine.call(engine.api.inspect_container, sandbox.id)
    given = inspected["HostConfig"]
    assert given["Memory"] == given["MemorySwap"] == sandbox.ref.resources.memory_bytes == 128 << 20
    assert given["PidsLimit"] == sandbox.ref.resources.pids == 64
    assert given["OomKillDisable"] in (False, None)
    limits = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/pids/pids.max 2>/dev/null"
    limits += " || cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/pids.max"
    assert (await said(sandbox, limits)).split() == [str(128 << 20), "64"]


async def test_the_record_says_what_is_in_force(sandbox: Sandbox, engine: Engine) -> None:
    ref = sandbox.ref
    assert (ref.provider, ref.walls, ref.engine) == ("docker", "container", engine.name)
    assert (ref.profile, ref.network, ref.user, ref.runner) == ("hardened", "none", "65534:65534", "supervisor")
    image = await engine.call(engine.api.inspect_image, "debian:bookworm-slim")
    assert (ref.image, ref.image_digest) == ("debian:bookworm-slim", image["Id"])
    assert any("kernel" in limitation for limitation in ref.limitations)


async def test_root_compat_can_administer_and_no_more(provider: DockerProvider, spec: SandboxSpec) -> None:
    async with provider.open(spec.model_copy(update={"profile": "root-compat"})) as sandbox:
        assert await said(sandbox, "id -u") == "0\n"
        await said(sandbox, "touch /etc/mine && chown 1000:1000 /etc/mine && mkdir /opt/mine && useradd -m alice")
        assert await said(sandbox, "id -un", user="alice") == "alice\n"
        bound = int((await said(sandbox, "grep CapBnd /proc/self/status")).split()[1], 16)
        assert bound == sum(1 << number for number in (0, 1, 3, 5, 6, 7)), (
            "CHOWN DAC_OVERRIDE FOWNER KILL SETGID SETUID"
        )
        assert (await sandbox.exec("mount -t tmpfs none /mnt || mknod /tmp/null c 1 3")).exit_status != 0
        assert sandbox.ref.profile == "root-compat"
        assert any("root in it" in limitation for limitation in sandbox.ref.limitations)
        assert any("not bounded" in limitation for limitation in sandbox.ref.limitations)


async def test_commands_run_as_the_user_of_the_spec(provider: DockerProvider, spec: SandboxSpec) -> None:
    async with provider.open(spec.model_copy(update={"user": "daemon"})) as sandbox:
        assert await said(sandbox, "id -un; touch mine /tmp/mine") == "daemon\n"
        assert sandbox.ref.user == "daemon"
    update = {"user": "daemon", "profile": "root-compat"}
    async with provider.open(spec.model_copy(update=update)) as sandbox:
        assert await said(sandbox, "id -un") == "daemon\n"
        assert sandbox.ref.user == "daemon"


async def test_a_writable_root_can_be_had_without_privileges(provider: DockerProvider, spec: SandboxSpec) -> None:
    async with provider.open(spec.model_copy(update={"has_writable_root": True})) as sandbox:
        assert await said(sandbox, "id -u; touch /workspace/a /tmp/b") == "65534\n"
        assert (await sandbox.exec("touch /etc/x")).exit_status != 0


async def test_the_workdir_and_environment_of_a_spec_are_there(provider: DockerProvider, spec: SandboxSpec) -> None:
    update = {"workdir": "/srv/deep/task", "environment": {"GREETING": "hello you"}, "scratch": ("/tmp", "/logs")}
    async with provider.open(spec.model_copy(update=update)) as sandbox:
        assert sandbox.workdir == "/srv/deep/task"
        assert await said(sandbox, 'pwd; echo "$GREETING"; touch /logs/x here') == "/srv/deep/task\nhello you\n"


async def test_a_bridge_is_there_only_where_it_is_asked_for(provider: DockerProvider, spec: SandboxSpec) -> None:
    async with provider.open(spec.model_copy(update={"network": "bridge"})) as sandbox:
        assert "eth0" in await said(sandbox, "ls /sys/class/net")
        assert sandbox.ref.network == "bridge"
        assert any("bridge" in limitation for limitation in sandbox.ref.limitations)


async def test_what_the_engine_cannot_give_is_refused(provider: DockerProvider, spec: SandboxSpec) -> None:
    with pytest.raises(ConfigError, match="CPU"):
        async with provider.open(spec.model_copy(update={"resources": Resources(cpus=4096)})):
            pass
    with pytest.raises(SandboxError, match="nobody-has/this"):
        await provider.prepare(spec.model_copy(update={"image": "nobody-has/this:1"}))
