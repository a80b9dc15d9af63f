"""One place on the cluster: the attempts its worker has, and the loop of orders and reports."""

import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from rollouthub.cluster.allowances import Allowances
from rollouthub.cluster.cluster_messages import AttemptCommand, Ended, WorkerOrder, WorkerReport, WorkOrder
from rollouthub.cluster.remote_attempt import RemoteAttempt
from rollouthub.cluster.worker_handles import PlaceStatus, WorkerHandle, WorkerStatus
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.pool import LAST_RECORD_SECONDS, Sink
from rollouthub.engine.schedule import QueuedAttempt
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.engine.work_queue import WorkQueue
from rollouthub.errors import HubError, StoreError, WorkerLost
from rollouthub.rollout import Rollout

MOST_AHEAD = 256
"""Most attempts that a worker gets beyond those it plays, so that it has work while a report is under way."""


@dataclass(frozen=True)
class Shared:
    """What all places of a run share."""

    feed: WorkQueue
    sink: Sink
    stop: StopSignal
    allowances: Allowances
    is_watched: Callable[[], bool]
    """Whether workers are to add figures of their process to the next report."""


class WorkerLoop:
    """Sends attempts to the worker of one place, and takes its records."""

    def __init__(self, place: int, shared: Shared, lane: str = "", *, is_alone: bool = False) -> None:
        """`lane`: the only environment played here, empty for all; `is_alone`: play suspect attempts one at a time."""
        self.place, self.lane, self.is_alone = place, lane, is_alone
        self._is_watched = shared.is_watched
        self.concurrency = self.workers = 1
        self.starting = anyio.CancelScope()
        self.is_late = False
        """Whether the worker takes so long to start that other workers take over its share."""
        self.member: WorkerHandle | None = None
        self.has_played = False
        """Whether any attempt was recorded in this place."""
        self.done = 0
        """Number of attempts whose records came from this place."""
        self._feed, self._sink, self._stop = shared.feed, shared.sink, shared.stop
        self._allowances = shared.allowances
        self._in_hand: dict[tuple[str, int], QueuedAttempt] = {}
        self._remote: dict[tuple[str, int], RemoteAttempt] = {}
        self._changes: list[AttemptCommand] = []
        self._ahead = 0
        self._report = WorkerReport()
        self._unread: deque[Ended] = deque()
        """Records that were fetched and are not stored yet."""

    def status(self) -> WorkerStatus:
        """The status of the worker."""
        assert self.member is not None
        hello, report = self.member.hello, self._report
        return WorkerStatus(
            name=self.member.name,
            node=hello.address,
            pid=hello.pid,
            in_flight=len(self._in_hand),
            cpu_seconds=max(0.0, report.cpu_seconds - hello.cpu_seconds),
            resident_bytes=report.resident_bytes,
        )

    @property
    def name(self) -> str:
        """The worker's name in logs and lists."""
        return "the worker for suspects" if self.is_alone else f"worker {self.place}"

    def standing(self, *, is_wanted: bool) -> PlaceStatus:
        """The status of the place; `is_wanted`: whether a worker is to stay in it."""
        in_flight = len(self._in_hand)
        if self.member is None:
            state = "late" if self.is_late else "starting"
        elif self.member.is_killed:
            state = "gone"
        elif not is_wanted:
            state = "leaving"
        else:
            state = "playing" if in_flight else "idle"
        hello = None if self.member is None else self.member.hello
        return PlaceStatus(
            name=self.name,
            state=state,
            node="" if hello is None else hello.address,
            pid=None if hello is None else hello.pid,
            in_flight=in_flight,
            done=self.done,
        )

    @property
    def figures(self) -> bytes:
        """Encoded `ProcessSnapshot` of the worker's process from its last report; empty if that report has none."""
        return self._report.figures

    async def play(self, member: WorkerHandle, is_wanted: Callable[[], bool]) -> None:
        """Play with a worker until nothing is left to play, or until it is no longer wanted and has nothing in flight.

        Raises:
            WorkerLost: the worker is gone; the caller then has `lose` record its attempts.
        """
        self.member = member
        try:
            while True:
                works = await self._works() if is_wanted() else []
                if not self._in_hand:
                    if self._feed.is_over or not is_wanted() or (self.is_alone and not works):
                        self._allowances.left(self.place, self._report.spent)
                        return
                    await self._feed.wait(self.lane)
                    continue
                is_ending = self._stop.is_set or not is_wanted() or self._feed.is_held
                await self._exchange(works, give_back=is_ending)
        except anyio.get_cancelled_exc_class():
            await self._cut_short(member)
            raise

    async def _works(self) -> list[QueuedAttempt]:
        """Take the attempts that the worker has room for and that are ready now."""
        works: list[QueuedAttempt] = []
        room = (1 if self.is_alone else self.concurrency + self._ahead) - len(self._in_hand)
        while len(works) < room:
            if self.is_alone:
                work = None if self._feed.is_held else self._feed.schedule.take_alone(anyio.current_time())
            else:
                work = await self._feed.at_once(self.lane)
            if work is None:
                break
            works.append(work)
            self._in_hand[work.key] = work
        return works

    async def _exchange(self, works: list[QueuedAttempt], *, give_back: bool = False, cancel: bool = False) -> None:
        """Send one order and take the report on it."""
        assert self.member is not None
        for work in works:
            remote = self._remote[work.key] = RemoteAttempt(work, self._ask)
            self._sink.track(remote)
        changes = self._changes.copy()
        self._changes.clear()
        order = WorkerOrder(
            works=[_order(work) for work in works],
            concurrency=self.concurrency,
            give_back=give_back,
            cancel=cancel,
            changes=changes,
            allowances=self._allowances.allow(self.place, self._report.spent, self.workers),
            last=self._allowances.last(),
            sharing=self.workers,
            look=self._is_watched(),
        )
        await self._take(await self.member.exchange(order))

    def _ask(self, change: AttemptCommand) -> None:
        """Add a command for an attempt to the next order."""
        self._changes.append(change)
        if len(self._changes) == 1:
            self.hurry()

    def hurry(self) -> None:
        """Ask the worker to report at once, so that the next order can be sent."""
        if self.member is not None and self.member.is_talking:
            self.member.nudge()

    async def _take(self, report: WorkerReport) -> None:
        """Process a report: store ended attempts, return those not begun, and update the others' state."""
        assert self.member is not None
        for note in report.notes:
            self.member.say(note)
        self._unread.extend(report.ended)
        await self._keep()
        for rollout_id, attempt in report.returned:
            remote = self._remote.pop((rollout_id, attempt), None)
            if remote is not None:
                self._sink.forget(remote)
            self._feed.give_back(self._in_hand.pop((rollout_id, attempt)))
        for state in report.states:
            remote = self._remote.get((state.rollout_id, state.attempt))
            if remote is not None:
                remote.update(state)
                self._sink.track(remote)
        self._ahead = min(MOST_AHEAD, self.concurrency, len(report.ended))
        self._report = report

    async def _keep(self) -> None:
        """Store fetched records one by one; after a cancellation, the next call continues with the same record."""
        while self._unread:
            ended = self._unread[0]
            key = ended.rollout_id, ended.attempt
            work = self._in_hand.get(key)
            if work is not None:  # else it was said before; what is kept is kept once
                rollout = Rollout.model_validate_json(ended.record)
                await self._sink.add(rollout, ended.media)
                del self._in_hand[key]
                self._remote.pop(key, None)
                self.has_played = True
                self.done += 1
                self._feed.ended(work, rollout)
            self._unread.popleft()

    async def set_aside(self, error: HubError) -> None:
        """Record suspect attempts as failed for good, because no worker can be started to play them alone."""
        while (work := self._feed.schedule.take_alone(anyio.current_time())) is not None:
            said = (
                f"set aside: its worker was lost {work.losses} times with it in flight, and none plays it now: {error}"
            )
            await self._sink.add(_unplayed(work).broken(WorkerLost(said, retryable=False)), {})
            self._feed.lost(work)

    async def lose(self, error: HubError) -> None:
        """Record a lost worker's attempts as broken; they are played again unless they were played alone."""
        self._allowances.lost(self.place)
        lost = list(self._in_hand.values())
        for work in lost:
            said = f"{error}; {len(lost)} episodes were in flight there"
            if self.is_alone:
                self.has_played = True
                said = (
                    f"set aside: its worker was lost {work.losses + 1} times with it in flight, "
                    f"the last time with nothing else beside it ({error})"
                )
            broken = WorkerLost(said, retryable=not self.is_alone)
            await self._sink.add(_unplayed(work).broken(broken), {})
            self._feed.lost(work)
        self._in_hand.clear()
        self._remote.clear()

    async def _cut_short(self, member: WorkerHandle) -> None:
        """When the run is cancelled, have the worker cancel its attempts, and store their records."""
        with anyio.move_on_after(LAST_RECORD_SECONDS / 2, shield=True), contextlib.suppress(WorkerLost, StoreError):
            await self._keep()
            for key in self._in_hand.keys() - self._remote.keys():
                del self._in_hand[key]  # taken, and never handed over
            if member.is_talking:
                await self._take(await member.last_report())
            while self._in_hand:
                await self._exchange([], give_back=True, cancel=True)
        with anyio.move_on_after(LAST_RECORD_SECONDS / 2, shield=True), contextlib.suppress(StoreError):
            for work in self._in_hand.values():
                await self._sink.add(_unplayed(work).cancelled(), {})


def _unplayed(work: QueuedAttempt) -> Attempt:
    return Attempt(work.sample, work.attempt, work.queued, lambda attempt: None)


def _order(work: QueuedAttempt) -> WorkOrder:
    sample = work.sample
    return WorkOrder(
        environment=sample.context.environment.name,
        split=sample.task_ref.split,
        task_id=sample.task_ref.id,
        digest=sample.task_ref.digest,
        group_id=sample.group_id,
        rollout_id=sample.rollout_id,
        sample=sample.index,
        seed=sample.seed,
        policy_seed=sample.policy_seed,
        attempt=work.attempt,
        queued=work.queued,
    )
