"""Feeding players: samples that come on demand, and players who each play one environment."""

from collections import deque
from collections.abc import Callable

import anyio
import anyio.lowlevel

from envhub import ModelError
from envhub.engine.feed import Feed
from envhub.engine.item import Item
from envhub.engine.pool import LocalPool
from envhub.engine.request import Retries
from envhub.engine.schedule import Schedule
from envhub.engine.stop import StopSignal
from envhub_agents.tool_loop import ToolLoop

from .conftest import Player, TellModel
from .test_pool import Kept


class Tap:
    """Samples that are let out one by one, each when the one before is settled."""

    def __init__(self, items: list[Item]) -> None:
        self._left = deque(items)
        self._is_open = True
        self._told: Callable[[], None] = lambda: None
        self.settlements = list[str]()

    @property
    def has_next(self) -> bool:
        return self._is_open

    def on_change(self, told: Callable[[], None]) -> None:
        self._told = told

    def settled(self, item: Item) -> None:
        self.settlements.append(item.rollout_id)
        self._is_open = True
        self._told()

    def __aiter__(self) -> "Tap":
        return self

    async def __anext__(self) -> Item:
        assert self._is_open, "read while there was nothing to be had"
        if not self._left:
            raise StopAsyncIteration
        self._is_open = False
        return self._left.popleft()


async def test_a_sample_on_demand_is_settled_once_after_its_last_attempt(attempt: Player) -> None:
    down = TellModel([ModelError("down", status=500)])
    sound = TellModel(["done"])
    tap = Tap([attempt(ToolLoop(), down).item, attempt(ToolLoop(), sound).item])
    sink = Kept()
    with anyio.fail_after(10):
        # With one player, who reads must not keep the broken one from being tried again.
        await LocalPool(1, Retries(infrastructure=1), StopSignal()).collect(tap, sink)
    assert [rollout.attempt for rollout in sink.rollouts] == [0, 1, 0]
    assert len(tap.settlements) == 2


class Drip:
    """Samples on demand, of which no more come until all of those are played."""

    def __init__(self, items: list[Item]) -> None:
        self._left = deque(items)

    @property
    def has_next(self) -> bool:
        return bool(self._left)

    def on_change(self, told: Callable[[], None]) -> None: ...

    def settled(self, item: Item) -> None: ...

    def __aiter__(self) -> "Drip":
        return self

    async def __anext__(self) -> Item:
        return self._left.popleft()


async def test_a_sample_that_another_environments_player_came_across_reaches_its_own(
    attempt: Player,
) -> None:
    item = attempt(ToolLoop(), TellModel(["done"])).item
    name = item.cast.environment.name
    feed = Feed(Drip([item]), Schedule(lambda _: 0, Retries(), by_environment=True), StopSignal())
    played = list[str]()

    async def play() -> None:
        await feed.wait(name)  # came before there was anything
        work = await feed.at_once(name)
        assert work is not None
        played.append(work.item.rollout_id)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as players:
            players.start_soon(play)
            await anyio.lowlevel.checkpoint()
            assert await feed.at_once("another") is None
    assert played == [item.rollout_id]
