"""A pool that is held back, and samples that somebody wants played again."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import anyio
import pytest

from rollouthub import ModelError, Outcome, Seat, Stop
from rollouthub.engine.pool import LocalPool
from rollouthub.engine.run_request import Retries
from rollouthub.engine.sample import Sample
from rollouthub.engine.schedule import Schedule
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.engine.work_queue import WorkQueue
from rollouthub.messages import assistant
from rollouthub_agents.null import Null
from rollouthub_agents.tool_loop import ToolLoop

from .conftest import Player, TellModel
from .test_pool import Kept, stream


async def until(claim: Callable[[], object]) -> None:
    """Wait until something holds."""
    with anyio.fail_after(30):
        while not claim():
            await anyio.lowlevel.checkpoint()


async def moments(count: int = 50) -> None:
    """Let everybody do what they would do now."""
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


class Waiter:
    """Waits at a gate, then plays, or fails as often as it is told."""

    name = "waiter"
    version = "1"
    config = dict[str, None]()

    def __init__(self, *, failures: int = 0) -> None:
        self.gate, self.waiting, self.failures = anyio.Event(), 0, failures
        self.begun = 0

    async def play(self, seat: Seat) -> Stop:
        """Wait, and speak."""
        self.begun += 1
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        if self.failures:
            self.failures -= 1
            raise ModelError("not today", retryable=False)
        seat.say(seat.messages, assistant("done"))
        return Stop.FINISHED


def items_of(sample: Sample, count: int) -> list[Sample]:
    return [replace(sample, rollout_id=f"r-{number}") for number in range(count)]


class Run:
    """A pool at work on samples of one kind."""

    def __init__(self, agent: Waiter | ToolLoop | Null, model: TellModel | None, attempt: Player, **more: int) -> None:
        self.stop, self.sink, self.over = StopSignal(), Kept(), anyio.Event()
        self.pool = LocalPool(more.get("concurrency", 2), Retries(infrastructure=more.get("retries", 0)), self.stop)
        self.items = items_of(attempt(agent, model).sample, more.get("count", 5))

    async def play(self) -> None:
        with anyio.fail_after(10):
            await self.pool.play(stream(self.items), self.sink)
        self.over.set()

    def outcomes(self) -> list[tuple[str, int, str]]:
        return [(kept.rollout_id, kept.attempt, kept.outcome.value) for kept in self.sink.rollouts]


async def test_a_held_pool_finishes_what_is_in_flight_and_starts_nothing_until_it_goes_on(attempt: Player) -> None:
    agent = Waiter()
    run = Run(agent, None, attempt)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.play)
        await until(lambda: agent.waiting == 2)
        run.pool.hold(True)
        run.pool.resize(4)
        agent.gate.set()
        await until(lambda: len(run.sink.rollouts) == 2)
        await moments()
        assert (agent.begun, run.over.is_set()) == (2, False)
        run.pool.hold(False)
        await run.over.wait()
    assert {kept.outcome for kept in run.sink.rollouts} == {Outcome.SCORED}
    assert len({kept.rollout_id for kept in run.sink.rollouts}) == len(run.sink.rollouts) == 5


async def test_a_pool_that_is_held_before_it_begins_starts_nothing(attempt: Player) -> None:
    run = Run(Null(), None, attempt)
    run.pool.hold(True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.play)
        await moments()
        assert not run.sink.states
        run.pool.hold(False)
    assert len(run.sink.rollouts) == 5


async def test_a_held_pool_tries_nothing_again_and_does_not_spin_on_what_is_due(attempt: Player) -> None:
    model = TellModel([ModelError("down"), "done"])
    run = Run(ToolLoop(), model, attempt, count=1, retries=3)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.play)
        await until(lambda: run.sink.rollouts)
        run.pool.hold(True)
        with anyio.move_on_after(0.3):  # longer than the pause before the retry
            await run.over.wait()
        assert len(model.requests) == 1
        run.pool.hold(False)
    assert [outcome for *_, outcome in run.outcomes()] == ["model_failed", "scored"]


async def test_what_waits_while_held_waits_for_a_change_and_not_for_the_clock(attempt: Player) -> None:
    schedule = Schedule(lambda _: 0, Retries(), jitter=lambda: 1.0)
    feed = WorkQueue(stream(items_of(attempt(Null()).sample, 1)), schedule, StopSignal())
    work = await feed.at_once()
    assert work is not None
    feed.ended(work, await attempt(ToolLoop(), TellModel([ModelError("down")])).play())
    assert schedule.waiting == 1
    feed.hold(True)
    with anyio.move_on_after(0.3) as scope:
        await feed.wait()
    assert scope.cancelled_caught
    feed.hold(False)
    with anyio.fail_after(20):
        await feed.wait()


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_stop_ends_a_held_pool(attempt: Player, concurrency: int) -> None:
    agent = Waiter()
    run = Run(agent, None, attempt, concurrency=concurrency)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.play)
        await until(lambda: agent.waiting == concurrency)
        run.pool.hold(True)
        run.stop.set()
        agent.gate.set()
    assert len(run.sink.rollouts) == concurrency


async def test_a_held_pool_that_has_played_everything_is_over(attempt: Player) -> None:
    agent = Waiter()
    run = Run(agent, None, attempt, count=2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.play)
        await until(lambda: agent.waiting == 2)
        run.pool.hold(True)
        agent.gate.set()
        await run.over.wait()
    assert len(run.sink.rollouts) == 2


async def test_a_sample_that_ended_without_a_result_is_played_again_and_holds_the_run_open(attempt: Player) -> None:
    agent = Waiter(failures=1)
    run = Run(agent, None, attempt, count=2, concurrency=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.play)
        await until(lambda: agent.waiting)
        assert run.pool.retry("r-0") == "unknown"
        agent.gate.set()
        await until(lambda: run.sink.rollouts)
        agent.gate = anyio.Event()
        await until(lambda: agent.waiting)  # the last there is, in flight
        assert run.pool.undecided == ("r-0",)
        assert run.pool.retry("r-0") == "queued"
        assert (run.pool.retry("r-0"), run.pool.undecided) == ("waiting", ())
        agent.gate.set()
    assert run.outcomes() == [("r-0", 0, "model_failed"), ("r-1", 0, "scored"), ("r-0", 1, "scored")]
    assert run.pool.retry("r-1") == "over"


async def test_what_is_asked_for_while_the_pool_is_held_is_played_when_it_goes_on(attempt: Player) -> None:
    agent = Waiter(failures=1)
    run = Run(agent, None, attempt, count=2, concurrency=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.play)
        await until(lambda: agent.waiting)
        run.pool.hold(True)
        agent.gate.set()
        await until(lambda: run.pool.undecided)
        assert run.pool.retry("r-0") == "queued"
        await moments()
        assert agent.begun == 1
        run.pool.hold(False)
    assert sorted(run.outcomes()) == [("r-0", 0, "model_failed"), ("r-0", 1, "scored"), ("r-1", 0, "scored")]


async def test_what_comes_on_demand_is_not_played_again_by_the_pool(attempt: Player) -> None:
    class Demanded:
        has_next = True

        def __init__(self, items: list[Sample]) -> None:
            self._items = items

        def on_change(self, told: Callable[[], None]) -> None: ...
        def settled(self, sample: Sample) -> None: ...
        def __aiter__(self) -> AsyncIterator[Sample]:
            return self

        async def __anext__(self) -> Sample:
            if not self._items:
                raise StopAsyncIteration
            return self._items.pop()

    sample = attempt(ToolLoop(), None).sample
    feed = WorkQueue(Demanded([sample]), Schedule(lambda _: 0, Retries()), StopSignal())
    work = await feed.at_once()
    assert work is not None
    feed.ended(work, await attempt(ToolLoop(), None).play())
    assert feed.retry(sample.rollout_id) == "on_demand"
