"""Programs that run in the background, their streams at hand."""

import resource
from collections.abc import Callable

import anyio
import pytest

from rollouthub.sandbox import CommandNotStarted, Program, Sandbox
from tests.sandboxes.contract.victims import VICTIMS, is_running, living, watch

SIZE = 50_000_000


async def read_until(program: Program, has_enough: Callable[[bytes], bool]) -> bytes:
    """Its standard output up to a point."""
    said = b""
    async for side, data in program.output():
        said += data if side == "stdout" else b""
        if has_enough(said):
            break
    return said


async def test_a_program_is_talked_to(sandbox: Sandbox) -> None:
    echo = "while read line; do echo you said $line; done; echo bye >&2; exit 4"
    async with sandbox.start(echo) as program:
        for word in (b"one", b"two"):
            await program.send(word + b"\n")
            assert await read_until(program, lambda said: said.endswith(b"\n")) == b"you said " + word + b"\n"
        await program.send_eof()
        assert [piece async for piece in program.output()] == [("stderr", b"bye\n")]
        done = await program.wait()
    assert (done.exit_status, done.stdout.head, done.timed_out) == (4, b"", False)


async def test_a_program_that_cannot_start_is_told_of_at_once(sandbox: Sandbox) -> None:
    with pytest.raises(CommandNotStarted) as caught:
        async with sandbox.start(["no-such-program"]):
            pytest.fail("it was to be refused")
    assert caught.value.reason == "ENOENT"


async def test_a_silent_program_has_started_when_its_context_is_entered(sandbox: Sandbox) -> None:
    with anyio.fail_after(20):
        async with sandbox.start(["sleep", "1000"]):
            pass
    assert sandbox.is_alive


@pytest.mark.parametrize("victim", VICTIMS)
async def test_leaving_the_context_kills_the_whole_tree(sandbox: Sandbox, victim: str) -> None:
    await watch(sandbox)
    async with sandbox.start(VICTIMS[victim] + "\nsleep 1000"):
        pid = await living(sandbox)
    assert not await is_running(sandbox, pid)


async def test_a_program_is_killed_on_request(sandbox: Sandbox) -> None:
    await watch(sandbox)
    async with sandbox.start(VICTIMS["deaf daemon"] + "\necho up; sleep 1000") as program:
        pid = await living(sandbox)
        assert await read_until(program, lambda said: said == b"up\n") == b"up\n"
        await program.kill()
        assert not await is_running(sandbox, pid)
        done = await program.wait()
        assert (done.exit_status, done.timed_out) == (None, False)
        await program.send(b"dropped")
        await program.kill()


async def test_a_signal_reaches_a_program(sandbox: Sandbox) -> None:
    trap = "trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.05; done"
    async with sandbox.start(trap) as program:
        await read_until(program, lambda said: said == b"ready\n")
        await program.kill(10)
        assert await read_until(program, lambda said: said == b"caught\n") == b"caught\n"
        assert (await program.wait()).exit_status == 5


async def test_a_program_has_a_deadline_where_one_is_given(sandbox: Sandbox) -> None:
    async with sandbox.start("echo up; sleep 1000", timeout_seconds=2) as program:
        assert [piece async for piece in program.output()] == [("stdout", b"up\n")]
        done = await program.wait()
    assert (done.exit_status, done.timed_out) == (None, True)


async def test_a_large_output_streams_at_the_readers_pace_without_growth(sandbox: Sandbox) -> None:
    writer = (
        "import os\nleft, chunk = %d, bytes(50_000)\n"
        "progress = os.open('progress', os.O_CREAT | os.O_WRONLY | os.O_APPEND)\n"
        "while left:\n    os.write(1, chunk)\n    os.write(progress, b'.')\n    left -= len(chunk)\n"
    )
    await sandbox.write_file("writer.py", (writer % SIZE).encode())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with sandbox.start(["python3", "writer.py"]) as program:
        pieces = program.output()
        total = len((await anext(pieces))[1])
        for _ in range(100):  # time enough to write it all, if nobody held the writer up
            await sandbox.exec(["true"])
        assert (await sandbox.list_files("progress"))[0].bytes * 50_000 < 5_000_000
        async for _, data in pieces:
            total += len(data)
        assert (await program.wait()).exit_status == 0
    assert total == SIZE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000


async def test_a_large_input_streams_at_the_programs_pace(sandbox: Sandbox) -> None:
    async with sandbox.start(["wc", "-c"]) as program:
        chunk = bytes(1_000_000)
        for _ in range(SIZE // len(chunk)):
            await program.send(chunk)
        await program.send_eof()
        assert int(await read_until(program, lambda _: False)) == SIZE


async def test_input_waits_for_a_program_that_does_not_read(sandbox: Sandbox) -> None:
    async with sandbox.start(["sleep", "1000"]) as program:
        sent = anyio.Event()

        async def send() -> None:
            await program.send(bytes(5_000_000))
            await program.send_eof()
            sent.set()

        async with anyio.create_task_group() as group:
            group.start_soon(send)
            for _ in range(20):
                await sandbox.exec(["true"])
            assert not sent.is_set()
            group.cancel_scope.cancel()
    assert sandbox.is_alive


async def test_a_flood_of_one_program_does_not_hold_up_a_command(sandbox: Sandbox) -> None:
    async with sandbox.start("yes") as program:
        pieces = program.output()
        await anext(pieces)
        with anyio.fail_after(20):
            assert (await sandbox.exec("echo quick")).stdout.text == "quick\n"
