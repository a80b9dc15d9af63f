"""What breaks, and what one sandbox sees of another."""

import os
import socket
from contextlib import suppress
from typing import Any

import anyio
import psutil
import pytest

from rollouthub.errors import SandboxError
from rollouthub.sandbox import Sandbox, SandboxProvider
from tests.sandboxes.contract.conftest import SPEC
from tests.sandboxes.contract.victims import is_running


def break_down(sandbox: Sandbox, kind: str) -> None:
    """Kill what a sandbox runs in, from outside."""
    if kind in ("docker", "podman"):
        docker: Any = pytest.importorskip("docker")
        client = docker.from_env()
        with suppress(docker.errors.APIError):  # Podman looks for it once more when it is dead
            client.api.kill(sandbox.id)
        client.close()
        return
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if any(sandbox.id in word for word in child.cmdline()):
                below = child.children()
                child.kill()  # first, or it could still report that a program ended
                for process in below:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()


async def test_a_sandbox_that_breaks_ends_every_call_at_once(provider: SandboxProvider, kind: str) -> None:
    broken: list[str] = []
    async with provider.open(SPEC) as sandbox:
        assert sandbox.is_alive

        async def call(number: int) -> None:
            with pytest.raises(SandboxError):
                await sandbox.exec("sleep 1000", timeout_seconds=900)
            broken.append(f"call {number}")

        async with anyio.create_task_group() as group, sandbox.start("echo up; sleep 1000") as program:
            pieces = program.output()
            assert await anext(pieces) == ("stdout", b"up\n")
            for number in range(3):
                group.start_soon(call, number)
            await sandbox.exec(["true"])
            with anyio.fail_after(20):
                break_down(sandbox, kind)
                with pytest.raises(SandboxError):
                    await anext(pieces)
                with pytest.raises(SandboxError):
                    await program.wait()
        assert sorted(broken) == [f"call {number}" for number in range(3)]
        assert not sandbox.is_alive
        for _ in range(2):
            with pytest.raises(SandboxError):
                await sandbox.exec("echo never")
        with pytest.raises(SandboxError):
            await sandbox.read_file("file")
        with pytest.raises(SandboxError):
            await sandbox.stop()


async def test_a_sandbox_that_breaks_while_nobody_calls_says_so_itself(provider: SandboxProvider, kind: str) -> None:
    async with provider.open(SPEC) as sandbox:
        async with sandbox.start("echo up; sleep 1000") as program:
            pieces = program.output()
            await anext(pieces)
            break_down(sandbox, kind)
            with anyio.fail_after(20), pytest.raises(SandboxError):
                await anext(pieces)
        assert not sandbox.is_alive


async def test_another_sandbox_is_untouched(sandbox: Sandbox, provider: SandboxProvider, kind: str) -> None:
    async with provider.open(SPEC) as other:
        break_down(other, kind)
        with anyio.fail_after(20), pytest.raises(SandboxError):
            while True:
                await other.exec(["true"])
    assert (await sandbox.exec("echo well")).stdout.text == "well\n"


async def test_an_error_in_the_body_passes_as_it_is(provider: SandboxProvider) -> None:
    with pytest.raises(ZeroDivisionError):
        async with provider.open(SPEC) as sandbox:
            await sandbox.exec(["true"])
            _ = 1 / 0


async def test_a_closed_sandbox_is_not_alive(provider: SandboxProvider) -> None:
    async with provider.open(SPEC) as sandbox:
        pass
    assert not sandbox.is_alive
    with pytest.raises(SandboxError):
        await sandbox.exec(["true"])


async def test_two_sandboxes_do_not_see_each_other(sandbox: Sandbox, provider: SandboxProvider) -> None:
    await sandbox.exec("echo mine > file; mkdir -p /tmp/one-of-two; : > ${TMPDIR:-/tmp}/mark")
    victim = sandbox.start("echo $$; exec sleep 1000", environment={"OF": "the-first"})
    async with provider.open(SPEC) as other, victim as program:
        assert other.id != sandbox.id
        pid = int((await anext(aiter(program.output())))[1])
        assert await other.list_files(".") == []
        look = f"cat {sandbox.workdir}/file; ls ${{TMPDIR:-/tmp}}/mark; cat /proc/{pid}/environ /proc/[0-9]*/environ"
        done = await other.exec(look)
        if sandbox.ref.walls != "limits" or os.geteuid() == 0:  # else it is one user's, as the record says
            words = set(done.stdout.text.replace("\0", "\n").replace("=", "\n").split())
            assert not {"mine", "mark", "the-first"} & words
            await other.exec(f"kill -9 {pid}")
            assert await is_running(sandbox, pid)
    await sandbox.exec("rm -rf /tmp/one-of-two")


async def test_there_is_no_network_where_the_record_says_so(sandbox: Sandbox) -> None:
    if sandbox.ref.network != "none":
        assert "the network is not cut" in sandbox.ref.limitations
        return
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "10.0.0.1"):
            program = f"import socket; socket.create_connection(({host!r}, {port}), timeout=3)"
            done = await sandbox.exec(["python3", "-c", program])
            assert "Error" in done.stderr.text


async def test_a_command_has_no_privileges_and_can_gain_none(sandbox: Sandbox) -> None:
    status = (await sandbox.exec("cat /proc/self/status")).stdout.text
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0
    assert fields["NoNewPrivs"] == "1"


async def test_the_supervisor_cannot_be_ended_from_inside(sandbox: Sandbox) -> None:
    if sandbox.ref.walls == "limits":
        assert any("end their own supervisor" in said for said in sandbox.ref.limitations)
        return
    await sandbox.exec("kill -9 1; kill -TERM 1; kill -9 -1", timeout_seconds=20)
    assert (await sandbox.exec("echo well")).stdout.text == "well\n"


async def test_no_command_can_lower_the_limits_of_the_sandbox(sandbox: Sandbox) -> None:
    blind = "pid=1; [ $1 = limits ] && pid=$(cut -d' ' -f4 /proc/$PPID/stat); prlimit --pid $pid --nofile=0:0"
    done = await sandbox.exec(["/bin/sh", "-c", blind, "sh", sandbox.ref.walls])
    assert "not permitted" in done.stderr.text
    assert (await sandbox.exec("prlimit --nofile=64 sh -c 'ulimit -n'")).stdout.text == "64\n"


async def test_no_program_is_root_of_a_user_namespace(sandbox: Sandbox) -> None:
    for flags in ("-U", "-Urm", "-Urn"):
        done = await sandbox.exec(f"unshare {flags} echo root")
        assert "root" not in done.stdout.text
    assert (await sandbox.exec("python3 -c 'import threading; threading.Thread().start()'")).exit_status == 0


async def test_folders_deeper_than_any_path_end_with_their_sandbox(provider: SandboxProvider) -> None:
    async with provider.open(SPEC) as sandbox:
        nest = (
            "name=$(printf a%.0s $(seq 200)); for each in $(seq 30); do mkdir $name && cd -P $name; done 2>/dev/null; "
        )
        many = "for each in $(seq 1500); do mkdir d && cd -P d || break; done 2>/dev/null; true"
        assert (await sandbox.exec(f"({nest} true); {many}", timeout_seconds=60)).exit_status == 0
    async with provider.open(SPEC) as sandbox:
        assert (await sandbox.exec("ls")).stdout.text == ""


async def test_a_forged_end_is_no_success(sandbox: Sandbox) -> None:
    done = await sandbox.exec("kill -9 $PPID; sleep 1000", timeout_seconds=5)
    assert done.exit_status != 0
    if sandbox.ref.walls != "limits":
        assert (await sandbox.exec("echo well")).stdout.text == "well\n"


async def test_what_does_not_hold_is_written_on_the_record(sandbox: Sandbox) -> None:
    assert sandbox.ref.profile == "hardened"
    assert sandbox.ref.runner == "supervisor"
    assert sandbox.ref.limitations or sandbox.ref.walls == "container"
