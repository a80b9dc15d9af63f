"""No command runs without a deadline, whoever forgot to give one."""

import inspect
import math

import anyio
import pytest

from rollouthub.sandbox import MOST_SECONDS, TIMEOUT_SECONDS, CommandLimits, Finished, Sandbox
from rollouthub_sandboxes.supervisor.execution import order
from tests.sandboxes.contract.victims import VICTIMS, is_running, living, watch


# The deadline is kept in the same place for the other kinds, and each takes a minute.
@pytest.mark.soak
@pytest.mark.parametrize("kind", ["namespaces", "docker"], indirect=True, scope="module")
async def test_a_command_that_was_given_no_deadline_has_one(sandbox: Sandbox) -> None:
    await watch(sandbox)
    ends: list[Finished] = []

    async def run() -> None:
        ends.append(await sandbox.exec(VICTIMS["own session"] + "\necho so far; sleep 1000"))

    pids: list[int] = []
    with anyio.fail_after(TIMEOUT_SECONDS + 30):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            pids.append(await living(sandbox))
    done = ends[0]
    assert (done.timed_out, done.exit_status, done.stdout.text) == (True, None, "so far\n")
    assert TIMEOUT_SECONDS <= done.seconds < TIMEOUT_SECONDS + 15
    assert not await is_running(sandbox, pids[0])


async def test_a_deadline_that_is_given_counts_and_the_rest_have_the_usual_one(sandbox: Sandbox) -> None:
    assert inspect.signature(sandbox.exec).parameters["timeout_seconds"].default == TIMEOUT_SECONDS
    done = await sandbox.exec("sleep 1000", timeout_seconds=0.3)
    assert done.timed_out
    assert 0.3 <= done.seconds < 15


@pytest.mark.parametrize("asked", [math.inf, 1e300, 10 * MOST_SECONDS])
async def test_a_deadline_beyond_the_ceiling_is_the_ceiling(sandbox: Sandbox, asked: float) -> None:
    assert (await sandbox.exec("echo well", timeout_seconds=asked)).stdout.text == "well\n"
    worded = order("x", user="", cwd="/", environment={}, timeout_seconds=asked, limits=CommandLimits(), flags=0)
    assert worded.seconds == MOST_SECONDS


async def test_a_background_program_without_a_deadline_has_the_ceiling(sandbox: Sandbox) -> None:
    async with sandbox.start("echo up; exec sleep 1000") as program:
        assert await anext(aiter(program.output())) == ("stdout", b"up\n")
    worded = order("x", user="", cwd="/", environment={}, timeout_seconds=None, limits=CommandLimits(), flags=0)
    assert worded.seconds == MOST_SECONDS
