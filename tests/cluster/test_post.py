"""A place on the cluster: what a worker tells twice counts once, and what was fetched is kept, whatever happens."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import anyio

from rollouthub import Rollout
from rollouthub.cluster.allowances import Allowances
from rollouthub.cluster.cluster_messages import Ended, Hello, WorkerOrder, WorkerReport, WorkOrder
from rollouthub.cluster.worker_handles import PATIENCE, PlaceStatus, WorkerHandle
from rollouthub.cluster.worker_loop import Shared, WorkerLoop
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.in_flight import InFlight
from rollouthub.engine.run_request import Retries
from rollouthub.engine.sample import Sample
from rollouthub.engine.schedule import Schedule
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.engine.work_queue import WorkQueue
from rollouthub_agents.null import Null
from tests.engine.conftest import Player, attempt
from tests.engine.test_pool import stream

__all__ = ["attempt"]


class Stammerer(WorkerHandle):
    """A worker that plays at once, and tells every record in each report that follows."""

    def __init__(self, attempts: list[Attempt]) -> None:
        super().__init__(None, None, Hello(pid=1, node_id="n", address="here"), "worker 0", PATIENCE)
        self._attempts = {each.sample.rollout_id: each for each in attempts}
        self._told = list[Ended]()
        self.looked_at = list[bool]()

    async def exchange(self, order: WorkerOrder) -> WorkerReport:
        """Play what is ordered."""
        self.looked_at.append(order.look)
        for work in order.works:
            record = await self._attempts[work.rollout_id].play()
            self._told.append(Ended(work.rollout_id, work.attempt, record.model_dump_json().encode(), {}))
        return WorkerReport(ended=list(self._told))


class Steady(WorkerHandle):
    """A worker that plays one attempt at a time, each when it is let, and gives back the others where that is asked."""

    def __init__(self, attempts: list[Attempt]) -> None:
        super().__init__(None, None, Hello(pid=1, node_id="n", address="here"), "worker 0", PATIENCE)
        self._attempts = {each.sample.rollout_id: each for each in attempts}
        self._queue = list[WorkOrder]()
        self.lets, self.begun, self.exchanges, self.is_busy = 0, 0, 0, False

    async def exchange(self, order: WorkerOrder) -> WorkerReport:
        """Begin with the first there is; end it, where that is let."""
        await anyio.lowlevel.checkpoint()
        self.exchanges += 1
        self._queue += order.works
        self.begun += bool(self._queue) and not self.is_busy
        self.is_busy = bool(self._queue)
        returned = [work.key for work in self._queue[1:]] if order.give_back else []
        del self._queue[1 if order.give_back else len(self._queue) :]
        if not self.lets or not self.is_busy:
            return WorkerReport(returned=returned)
        self.lets, self.is_busy = self.lets - 1, False
        work = self._queue.pop(0)
        record = await self._attempts[work.rollout_id].play()
        return WorkerReport(
            [Ended(work.rollout_id, work.attempt, record.model_dump_json().encode(), {})], returned=returned
        )


class SlowSink:
    """Keeps records; waits for the disk before each, but for the first ones."""

    def __init__(self, quick: int) -> None:
        self.records = list[Rollout]()
        self.stuck = anyio.Event()
        self.forgotten = 0
        self._quick = quick

    def attempts(self, rollout_id: str) -> int:
        return 0

    async def add(self, rollout: Rollout, media: Mapping[str, bytes]) -> None:
        if len(self.records) == self._quick:
            self.stuck.set()
            await anyio.sleep(0.01)
        self.records.append(rollout)

    def track(self, attempt: InFlight) -> None: ...

    def forget(self, attempt: InFlight) -> None:
        self.forgotten += 1

    def settled(self, sample: Sample) -> None: ...


def five(attempt: Player) -> list[Attempt]:
    items = [replace(attempt(Null(), None).sample, rollout_id=f"r-{number}") for number in range(5)]
    return [Attempt(sample, 0, 0.0, lambda attempt: None) for sample in items]


def loop_of(attempts: list[Attempt], sink: SlowSink, is_watched: Callable[[], bool] = lambda: False) -> WorkerLoop:
    stop = StopSignal()
    feed = WorkQueue(stream([each.sample for each in attempts]), Schedule(sink.attempts, Retries()), stop)
    return WorkerLoop(0, Shared(feed, sink, stop, Allowances({}), is_watched))


async def test_a_record_that_is_told_again_is_kept_once(attempt: Player) -> None:
    attempts, sink = five(attempt), SlowSink(99)
    with anyio.fail_after(5):
        await loop_of(attempts, sink).play(Stammerer(attempts), lambda: True)
    assert len(sink.records) == len({record.rollout_id for record in sink.records}) == 5


async def test_records_that_were_fetched_are_kept_when_the_run_is_cut_short(attempt: Player) -> None:
    attempts, sink = five(attempt), SlowSink(2)
    loop = loop_of(attempts, sink)
    loop.concurrency = 5
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loop.play, Stammerer(attempts), lambda: True)
            await sink.stuck.wait()
            tasks.cancel_scope.cancel()
    assert len(sink.records) == 5
    assert {record.stop.value for record in sink.records} == {"finished"}


async def test_a_held_run_takes_back_what_its_worker_has_not_begun_and_gives_it_again(attempt: Player) -> None:
    attempts, sink, stop = five(attempt), SlowSink(99), StopSignal()
    feed = WorkQueue(stream([each.sample for each in attempts]), Schedule(sink.attempts, Retries()), stop)
    loop = WorkerLoop(0, Shared(feed, sink, stop, Allowances({}), is_watched=lambda: False))
    loop.concurrency, worker = 3, Steady(attempts)

    async def until(claim: Callable[[], object]) -> None:
        while not claim():
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loop.play, worker, lambda: True)
            await until(lambda: worker.begun == 1)
            feed.hold(True)
            await until(lambda: sink.forgotten == 2)
            worker.lets = 1
            await until(lambda: len(sink.records) == 1)
            exchanges = worker.exchanges
            for _ in range(50):
                await anyio.lowlevel.checkpoint()
            assert (worker.begun, worker.exchanges, feed.schedule.in_flight) == (1, exchanges, 0)
            worker.lets = 9
            feed.hold(False)
    assert sorted(record.rollout_id for record in sink.records) == [f"r-{number}" for number in range(5)]


async def test_a_place_tells_who_plays_there_and_asks_nobody(attempt: Player) -> None:
    attempts, sink = five(attempt), SlowSink(99)
    loop = loop_of(attempts, sink)
    assert loop.standing(is_wanted=True) == PlaceStatus("worker 0", "starting", "", None, 0, 0)
    loop.is_late = True
    assert loop.standing(is_wanted=True).state == "late"
    member = Stammerer(attempts)
    with anyio.fail_after(5):
        await loop.play(member, lambda: True)
    assert loop.standing(is_wanted=True) == PlaceStatus("worker 0", "idle", "here", 1, 0, 5)
    assert loop.standing(is_wanted=False).state == "leaving"
    member.is_killed = True
    assert loop.standing(is_wanted=False).state == "gone"


async def test_workers_are_looked_at_only_while_somebody_wants_to_know(attempt: Player) -> None:
    attempts, sink = five(attempt), SlowSink(99)
    member = Stammerer(attempts)
    with anyio.fail_after(5):
        await loop_of(attempts, sink, lambda: len(sink.records) in (1, 2)).play(member, lambda: True)
    assert member.looked_at == [False, True, False]
