"""Whatever a command starts is dead when it is to be: each victim is first seen alive."""

import anyio
import pytest

from rollouthub.sandbox import Finished, Sandbox, SandboxProvider
from tests.sandboxes.contract.conftest import SPEC
from tests.sandboxes.contract.victims import VICTIMS, is_running, living, watch

STAYS = "sleep 1000"


@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_cancelled_command_is_dead_with_all_it_started(sandbox: Sandbox, victim: str) -> None:
    await watch(sandbox)
    pids: list[int] = []
    async with anyio.create_task_group() as group:
        group.start_soon(sandbox.exec, VICTIMS[victim] + "\n" + STAYS)
        pids.append(await living(sandbox))
        group.cancel_scope.cancel()
    assert not await is_running(sandbox, pids[0])


@pytest.mark.parametrize("victim", ["own session", "deaf daemon"])
async def test_a_command_at_its_deadline_is_dead_with_all_it_started(sandbox: Sandbox, victim: str) -> None:
    await watch(sandbox)
    ends: list[Finished] = []

    async def run() -> None:
        ends.append(await sandbox.exec(VICTIMS[victim] + "\n" + STAYS, timeout_seconds=4))

    pids: list[int] = []
    async with anyio.create_task_group() as group:
        group.start_soon(run)
        pids.append(await living(sandbox))
    assert ends[0].timed_out
    assert ends[0].survivors == 0
    assert not await is_running(sandbox, pids[0])


@pytest.mark.parametrize("victim", VICTIMS)
async def test_what_runs_in_the_background_survives_its_command_and_dies_at_stop(sandbox: Sandbox, victim: str) -> None:
    await watch(sandbox)
    done = await sandbox.exec(VICTIMS[victim] + "\necho started")
    assert (done.exit_status, done.stdout.text) == (0, "started\n")
    pid = await living(sandbox)
    assert await sandbox.stop() >= 1
    assert not await is_running(sandbox, pid)
    assert await sandbox.stop() == 0
    assert (await sandbox.exec("echo again")).stdout.text == "again\n"


async def test_survivors_are_counted(sandbox: Sandbox) -> None:
    done = await sandbox.exec("sleep 1000 & sleep 1000 & :")
    assert done.exit_status == 0
    assert done.survivors == 2
    assert await sandbox.stop() == 2


@pytest.mark.parametrize("victim", VICTIMS)
async def test_nothing_is_left_of_a_command_that_may_leave_nothing(sandbox: Sandbox, victim: str) -> None:
    await watch(sandbox)
    ends: list[Finished] = []

    async def run() -> None:
        wait_for_go = "\nuntil test -e go; do sleep 0.05; done; echo done"
        ends.append(await sandbox.exec(VICTIMS[victim] + wait_for_go, keeps_background=False))

    pids: list[int] = []
    async with anyio.create_task_group() as group:
        group.start_soon(run)
        pids.append(await living(sandbox))
        await sandbox.write_file("go", b"")
    assert ends[0].stdout.text == "done\n"
    assert ends[0].survivors == 0
    assert not await is_running(sandbox, pids[0])


async def test_a_background_process_that_holds_the_output_open_holds_nobody_up(sandbox: Sandbox) -> None:
    with anyio.fail_after(20):
        done = await sandbox.exec("sleep 1000 & echo said")
    assert done.stdout.text == "said\n"


async def test_cancellation_does_not_touch_other_commands(sandbox: Sandbox) -> None:
    await watch(sandbox)
    async with sandbox.start(["cat"]) as other:
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.exec, VICTIMS["child"] + "\n" + STAYS)
            await living(sandbox)
            group.cancel_scope.cancel()
        await other.send(b"still here")
        await other.send_eof()
        assert [piece async for piece in other.output()] == [("stdout", b"still here")]


async def test_a_command_cancelled_before_it_runs_does_no_harm(sandbox: Sandbox) -> None:
    for _ in range(20):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await sandbox.exec("sleep 1000")
    assert (await sandbox.exec("echo well")).stdout.text == "well\n"


async def test_a_fork_bomb_ends_and_the_next_command_runs(sandbox: Sandbox) -> None:
    bomb = "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.05)\n"
    done = await sandbox.exec(["python3", "-c", bomb], timeout_seconds=2)
    assert done.timed_out
    assert done.survivors == 0
    assert (await sandbox.exec("echo well")).stdout.text == "well\n"


async def test_whoever_opened_a_sandbox_is_cancelled_without_delay(provider: SandboxProvider) -> None:
    cancelled_at = 0.0
    with anyio.CancelScope() as scope:
        async with provider.open(SPEC) as sandbox, sandbox.start(STAYS):
            cancelled_at = anyio.current_time()
            scope.cancel()
            await anyio.sleep_forever()
    assert anyio.current_time() - cancelled_at < 10
