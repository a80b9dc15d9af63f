"""A supply's samples for a pool, begun as the bounds allow: epoch after epoch, and stale tasks again."""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path

import anyio
import anyio.to_thread

from rollouthub.engine.group_scoring import GroupScoring
from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import SupplyError
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter, open_run
from rollouthub.trainers.stream.group_tracker import MOST_PASSES, GroupTracker
from rollouthub.trainers.stream.ledger import Ledger
from rollouthub.trainers.stream.pending_group import PendingGroup, TaskPass
from rollouthub.trainers.stream.task_order import tickets

EPOCHS_DONE = "epochs_done"


class StreamSource:
    """The iterator from which a pool reads a supply's samples. `Feeder` fills it; reading never blocks."""

    def __init__(self, tracker: GroupTracker, stop: StopSignal) -> None:
        self._tracker, self._stop = tracker, stop
        self._items: deque[Sample] = deque()
        self._again: set[str] = set()
        """Samples whose attempt is being cancelled, to be played again."""
        self._is_closed = False
        self._on_change: Callable[[], None] = lambda: None

    @property
    def has_next(self) -> bool:
        """Whether a sample, or the end, is ready to be read."""
        return bool(self._items) or self._is_closed

    def on_change(self, callback: Callable[[], None]) -> None:
        """Set the function to call when a sample or the end becomes ready."""
        self._on_change = callback

    def settled(self, sample: Sample) -> None:
        """Register that no further attempt at a sample follows. If the run is stopping, the sample is left
        unsettled, for `resume`.
        """
        if self._stop.is_set:
            return
        if sample.rollout_id in self._again:
            self._again.discard(sample.rollout_id)
            if self._tracker.is_wanted_again(sample.rollout_id):
                self.put([sample])
                return
        self._tracker.settled(sample.rollout_id)

    def play_again(self, rollout_id: str) -> None:
        """Play the sample again after its attempt, which is being cancelled."""
        self._again.add(rollout_id)

    def withdraw(self, rollout_id: str) -> bool:
        """Remove a sample; False if a pool has already read it."""
        left = [sample for sample in self._items if sample.rollout_id != rollout_id]
        was_unread, self._items = len(left) < len(self._items), deque(left)
        return was_unread

    def __aiter__(self) -> "StreamSource":
        return self

    async def __anext__(self) -> Sample:
        if self._items:
            return self._items.popleft()
        assert self._is_closed, "read while it has no next"
        raise StopAsyncIteration

    def put(self, items: list[Sample]) -> None:
        """Add samples to be played."""
        self._items.extend(items)
        self._on_change()

    def close(self) -> None:
        """Signal that no more samples follow."""
        self._is_closed = True
        self._on_change()


class Feeder:
    """Fills a `StreamSource` with the samples of new units."""

    def __init__(
        self,
        source: StreamSource,
        tracker: GroupTracker,
        opened: OpenPlan,
        writer: RunWriter,
        ledger: Ledger,
        directory: Path,
        scoring: GroupScoring | None = None,
    ) -> None:
        """`scoring` scores groups, for environments that score whole groups; None if no environment does."""
        self._source, self._tracker, self._opened, self._scoring = source, tracker, opened, scoring
        self._writer, self._ledger, self._directory = writer, ledger, directory
        self._contexts: Mapping[str, tuple[OpenEnvironment, SampleContext]] = {
            context.environment.name: (environment, context) for environment, context in opened.contexts(writer.run_id)
        }
        for _, context in self._contexts.values():
            writer.add_tools(context.host.info.tools_digest, context.host.info.tools)
        self.is_held = False

    async def run(self) -> None:
        """Begin units until all are handed out or dropped.

        Raises:
            DataError: a row makes no task.
            ServerGone: an environment's server does not come back.
        """
        tracker = self._tracker
        async with aclosing(self._tickets()) as passes:
            is_exhausted = False
            while not tracker.is_over:
                is_dry = is_exhausted and not tracker.again
                if is_dry and not tracker.room.outstanding:
                    break
                if self.is_held or is_dry or tracker.room.left <= 0:
                    await tracker.wait()
                    continue
                ticket = tracker.again.popleft() if tracker.again else await anext(passes, None)
                if ticket is None:
                    is_exhausted = True
                else:
                    await self._begin(ticket)
        tracker.end()
        self._source.close()

    async def _tickets(self) -> AsyncGenerator[TaskPass]:
        """Passes over tasks in order, without those that were concluded before."""
        tracker, rules, ledger = self._tracker, self._tracker.rules, self._ledger
        for name, split, task_id, sample, epoch, pass_number in await ledger.to_be_played_again(MOST_PASSES - 1):
            if name in self._contexts:
                context = self._contexts[name][1]
                card = await context.host.find_task(split, task_id, self._opened.plan.seed)
                yield TaskPass(context, card, epoch, pass_number, sample)
        for seen in await ledger.pass_rates():
            tracker.curriculum.learn(seen)
        epoch = await ledger.recall(EPOCHS_DONE) or 0
        while rules.epochs is None or epoch < rules.epochs:
            tracker.stats.epoch = epoch
            concluded = await ledger.concluded(epoch)
            begun, rested, is_played = 0, 0, False
            async with aclosing(tickets(self._opened, self._contexts, epoch, shuffle=rules.shuffle)) as passes:
                async for ticket in passes:
                    is_played = True
                    if tracker.is_set_aside(ticket):
                        continue
                    if tracker.curriculum.rests(ticket):
                        rested += 1
                        tracker.stats.resting += 1
                        continue
                    for single in self._split(ticket):
                        if not concluded or self._id_of(single) not in concluded:
                            begun += 1
                            yield single
            if rules.epochs is None and not begun and not rested and not concluded:
                raise SupplyError(
                    "every task was set aside: all samples of each broke, time after time; `hub report` says of what"
                    if is_played
                    else "there is no task to play"
                )
            epoch += 1
            ledger.remember(EPOCHS_DONE, tracker.lowest_open(epoch))

    def _split(self, ticket: TaskPass) -> list[TaskPass]:
        """The passes that each make one unit: the pass itself, or one for each sample."""
        if self._tracker.rules.groups:
            return [ticket]
        return [ticket.alone(number) for number in range(self._opened.plan.request.repeats)]

    def _id_of(self, ticket: TaskPass) -> str:
        first = next(ticket.items(self._opened, 1))
        return first.group_id if self._tracker.rules.groups else first.rollout_id

    async def _begin(self, ticket: TaskPass) -> None:
        """Begin a unit; samples with a result in the store are not played again."""
        tracker, writer = self._tracker, self._writer
        items = list(ticket.items(self._opened, tracker.bounds.samples))
        await self._meet_again(items[0])
        unit = PendingGroup(ticket, items, is_group=tracker.rules.groups, size=tracker.bounds.size)
        done = {sample.rollout_id: sample for sample in unit.items if writer.is_done(sample.rollout_id)}
        waiting = [record for name in done if (record := writer.waiting_members.get(name)) is not None]
        kept = [name for name in done if name not in writer.waiting_members]
        records = await anyio.to_thread.run_sync(_read, self._directory, kept) if kept else []
        tracker.begin(unit)
        for record in records:
            unit.committed(record)
            unit.settled(record.rollout_id)
        for record in waiting:
            unit.added(record)
            unit.settled(record.rollout_id)
        if self._scoring is not None:
            for record in (*records, *waiting):
                self._scoring.done_before(done[record.rollout_id], record)
        left = [sample for sample in unit.items if sample.rollout_id not in done]
        if writer.is_judged(unit.group_id):  # what broke of it is not played again
            for sample in left:
                unit.settled(sample.rollout_id)
            left = []
        self._source.put(left)
        tracker.look_at(unit)

    async def _meet_again(self, sample: Sample) -> None:
        """Give a group that was begun before the run was resumed the opponents that its records name: the pools of its
        seats may have grown meanwhile.
        """
        pools = {seat: player.pool for seat, player in sample.context.seats.items() if player.pool is not None}
        samples = max(sample.group_size, self._opened.plan.repeats)
        names = (f"{sample.group_id}-{number}" for number in range(samples))
        kept = next((name for name in names if self._writer.is_kept(name)), None) if pools else None
        if kept is None:
            return
        record = self._writer.waiting_members.get(kept)
        if record is None:
            (record,) = await anyio.to_thread.run_sync(_read, self._directory, [kept])
        for seat, pool in pools.items():
            if (met := record.seats.get(seat)) is not None:
                pool.meet(sample.group_id, sample.seed, met.model, met.version)


def _read(directory: Path, rollout_ids: list[str]) -> list[Rollout]:
    with open_run(directory) as reader:
        return [reader.rollout(rollout_id) for rollout_id in rollout_ids]
