"""Feeding players: samples that come on demand, and players who each play one environment."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest

from rollouthub import ModelError
from rollouthub.engine.pool import LocalPool
from rollouthub.engine.run_request import Retries
from rollouthub.engine.sample import Sample
from rollouthub.engine.schedule import Schedule
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.engine.work_queue import READ_AT_ONCE, WorkQueue
from rollouthub_agents.tool_loop import ToolLoop

from .conftest import Player, TellModel
from .test_pool import Kept


class Tap:
    """Samples that are let out one by one, each when the one before is settled."""

    def __init__(self, items: list[Sample]) -> None:
        self._left = deque(items)
        self._is_open = True
        self._told: Callable[[], None] = lambda: None
        self.settlements = list[str]()

    @property
    def has_next(self) -> bool:
        return self._is_open

    def on_change(self, told: Callable[[], None]) -> None:
        self._told = told

    def settled(self, sample: Sample) -> None:
        self.settlements.append(sample.rollout_id)
        self._is_open = True
        self._told()

    def __aiter__(self) -> "Tap":
        return self

    async def __anext__(self) -> Sample:
        assert self._is_open, "read while there was nothing to be had"
        if not self._left:
            raise StopAsyncIteration
        self._is_open = False
        return self._left.popleft()


async def test_a_sample_on_demand_is_settled_once_after_its_last_attempt(attempt: Player) -> None:
    down = TellModel([ModelError("down", status=500)])
    sound = TellModel(["done"])
    tap = Tap([attempt(ToolLoop(), down).sample, attempt(ToolLoop(), sound).sample])
    sink = Kept()
    with anyio.fail_after(10):
        # With one player, who reads must not keep the broken one from being tried again.
        await LocalPool(1, Retries(infrastructure=1), StopSignal()).play(tap, sink)
    assert [rollout.attempt for rollout in sink.rollouts] == [0, 1, 0]
    assert len(tap.settlements) == 2


class Drip:
    """Samples on demand, of which no more come until all of those are played."""

    def __init__(self, items: list[Sample]) -> None:
        self._left = deque(items)

    @property
    def has_next(self) -> bool:
        return bool(self._left)

    def on_change(self, told: Callable[[], None]) -> None: ...

    def settled(self, sample: Sample) -> None: ...

    def __aiter__(self) -> "Drip":
        return self

    async def __anext__(self) -> Sample:
        return self._left.popleft()


async def test_a_sample_that_another_environments_player_came_across_reaches_its_own(
    attempt: Player,
) -> None:
    sample = attempt(ToolLoop(), TellModel(["done"])).sample
    name = sample.context.environment.name
    feed = WorkQueue(Drip([sample]), Schedule(lambda _: 0, Retries(), by_environment=True), StopSignal())
    played = list[str]()

    async def play() -> None:
        await feed.wait(name)  # came before there was anything
        work = await feed.at_once(name)
        assert work is not None
        played.append(work.sample.rollout_id)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as players:
            players.start_soon(play)
            await anyio.lowlevel.checkpoint()
            assert await feed.at_once("another") is None
    assert played == [sample.rollout_id]


class Counted:
    """Endless samples that count how many were read."""

    def __init__(self, sample: Sample) -> None:
        self._sample, self.reads = sample, 0

    def __aiter__(self) -> "Counted":
        return self

    async def __anext__(self) -> Sample:
        self.reads += 1
        return replace(self._sample, index=self.reads)


async def test_samples_are_read_some_at_a_time_and_handed_out_in_order(
    attempt: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollouthub.engine.work_queue.READ_SECONDS", 60.0)
    samples = Counted(attempt(ToolLoop(), TellModel(["done"])).sample)
    feed = WorkQueue(samples, Schedule(lambda _: 0, Retries()), StopSignal())
    taken = [await feed.at_once() for _ in range(READ_AT_ONCE + 1)]
    assert [work and work.sample.index for work in taken] == list(range(1, READ_AT_ONCE + 2))
    assert samples.reads == 2 * READ_AT_ONCE


async def test_samples_that_take_time_to_make_are_read_one_by_one(
    attempt: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollouthub.engine.work_queue.READ_SECONDS", -1.0)
    samples = Counted(attempt(ToolLoop(), TellModel(["done"])).sample)
    feed = WorkQueue(samples, Schedule(lambda _: 0, Retries()), StopSignal())
    for reads in range(1, 6):
        assert await feed.at_once() is not None
        assert samples.reads == reads
