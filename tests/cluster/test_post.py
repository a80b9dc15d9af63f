"""A place on the cluster: what a worker tells twice counts once, and what was fetched is kept, whatever happens."""

from collections.abc import Mapping
from dataclasses import replace

import anyio

from envhub import Rollout
from envhub.cluster.allowances import Allowances
from envhub.cluster.crew import PATIENCE, Member
from envhub.cluster.post import Post, Shared
from envhub.cluster.wire import Ended, Hello, Order, Report
from envhub.engine.feed import Feed
from envhub.engine.in_flight import InFlight
from envhub.engine.play import Attempt
from envhub.engine.request import Retries
from envhub.engine.schedule import Schedule
from envhub.engine.stop import StopSignal
from envhub_agents.null import Null
from tests.engine.conftest import Player, attempt
from tests.engine.test_pool import stream

__all__ = ["attempt"]


class Stammerer(Member):
    """A worker that plays at once, and tells every record in each report that follows."""

    def __init__(self, attempts: list[Attempt]) -> None:
        super().__init__(None, None, Hello(pid=1, node_id="n", address="here"), "worker 0", PATIENCE)
        self._attempts = {each.item.rollout_id: each for each in attempts}
        self._told = list[Ended]()

    async def exchange(self, order: Order) -> Report:
        """Play what is ordered."""
        for work in order.works:
            record = await self._attempts[work.rollout_id].play()
            self._told.append(Ended(work.rollout_id, work.attempt, record.model_dump_json().encode(), {}))
        return Report(ended=list(self._told))


class SlowSink:
    """Keeps records; waits for the disk before each, but for the first ones."""

    def __init__(self, quick: int) -> None:
        self.records = list[Rollout]()
        self.stuck = anyio.Event()
        self._quick = quick

    def attempts(self, rollout_id: str) -> int:
        return 0

    async def add(self, rollout: Rollout, media: Mapping[str, bytes]) -> None:
        if len(self.records) == self._quick:
            self.stuck.set()
            await anyio.sleep(0.01)
        self.records.append(rollout)

    def track(self, attempt: InFlight) -> None: ...


def five(attempt: Player) -> list[Attempt]:
    items = [replace(attempt(Null(), None).item, rollout_id=f"r-{number}") for number in range(5)]
    return [Attempt(item, 0, 0.0, lambda attempt: None) for item in items]


def post_of(attempts: list[Attempt], sink: SlowSink) -> Post:
    stop = StopSignal()
    feed = Feed(stream([each.item for each in attempts]), Schedule(sink.attempts, Retries()), stop)
    return Post(0, Shared(feed, sink, stop, Allowances({}), is_watched=False))


async def test_a_record_that_is_told_again_is_kept_once(attempt: Player) -> None:
    attempts, sink = five(attempt), SlowSink(99)
    with anyio.fail_after(5):
        await post_of(attempts, sink).play(Stammerer(attempts), lambda: True)
    assert len(sink.records) == len({record.rollout_id for record in sink.records}) == 5


async def test_records_that_were_fetched_are_kept_when_the_run_is_cut_short(attempt: Player) -> None:
    attempts, sink = five(attempt), SlowSink(2)
    post = post_of(attempts, sink)
    post.concurrency = 5
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post.play, Stammerer(attempts), lambda: True)
            await sink.stuck.wait()
            tasks.cancel_scope.cancel()
    assert len(sink.records) == 5
    assert {record.stop.value for record in sink.records} == {"finished"}
