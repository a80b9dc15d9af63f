"""Samples for a pool, begun as there is room for them: epoch after epoch, what went stale once more."""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path

import anyio
import anyio.to_thread

from rollouthub.engine.open_plan import OpenEnvironment, OpenPlan
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import SupplyError
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter, open_run
from rollouthub.trainers.stream.group_tracker import MOST_VISITS, GroupTracker
from rollouthub.trainers.stream.ledger import Ledger
from rollouthub.trainers.stream.pending_group import PendingGroup, TaskPass
from rollouthub.trainers.stream.task_order import tickets

EPOCHS_DONE = "epochs_done"


class StreamSource:
    """What a pool reads its samples from. `feed` fills it; reading it never waits."""

    def __init__(self, desk: GroupTracker, stop: StopSignal) -> None:
        self._desk, self._stop = desk, stop
        self._items: deque[Sample] = deque()
        self._again: set[str] = set()
        """Attempts in flight that are broken off, to be made anew."""
        self._is_closed = False
        self._told: Callable[[], None] = lambda: None

    @property
    def has_next(self) -> bool:
        """Whether there is a sample, or the end."""
        return bool(self._items) or self._is_closed

    def on_change(self, told: Callable[[], None]) -> None:
        """Tell this one when there is."""
        self._told = told

    def settled(self, item: Sample) -> None:
        """No further attempt at a sample follows. Of a run that stops, every broken one is left for `resume`."""
        if self._stop.is_set:
            return
        if item.rollout_id in self._again:
            self._again.discard(item.rollout_id)
            if self._desk.is_wanted_again(item.rollout_id):
                self.put([item])
                return
        self._desk.settled(item.rollout_id)

    def play_again(self, rollout_id: str) -> None:
        """The attempt in flight is being broken off: make another after it."""
        self._again.add(rollout_id)

    def withdraw(self, rollout_id: str) -> bool:
        """Take back a sample; False where a pool has read it already."""
        left = [item for item in self._items if item.rollout_id != rollout_id]
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
        """Let samples be played."""
        self._items.extend(items)
        self._told()

    def close(self) -> None:
        """There are no more."""
        self._is_closed = True
        self._told()


class Feeder:
    """Fills a source."""

    def __init__(
        self,
        source: StreamSource,
        desk: GroupTracker,
        opened: OpenPlan,
        writer: RunWriter,
        ledger: Ledger,
        directory: Path,
    ) -> None:
        self._source, self._desk, self._opened = source, desk, opened
        self._writer, self._ledger, self._directory = writer, ledger, directory
        self._casts: Mapping[str, tuple[OpenEnvironment, SampleContext]] = {
            cast.environment.name: (environment, cast) for environment, cast in opened.casts(writer.run_id)
        }
        for _, cast in self._casts.values():
            writer.add_tools(cast.host.info.tools_digest, cast.host.info.tools)
        self.is_held = False

    async def run(self) -> None:
        """Begin units until all are handed out.

        Raises:
            DataError: a row makes no task.
            ServerGone: an environment's server does not come back.
        """
        desk = self._desk
        async with aclosing(self._tickets()) as visits:
            is_exhausted = False
            while not desk.is_over:
                is_dry = is_exhausted and not desk.again
                if is_dry and not desk.room.outstanding:
                    break
                if self.is_held or is_dry or desk.room.left <= 0:
                    await desk.wait()
                    continue
                ticket = desk.again.popleft() if desk.again else await anext(visits, None)
                if ticket is None:
                    is_exhausted = True
                else:
                    await self._begin(ticket)
        desk.end()
        self._source.close()

    async def _tickets(self) -> AsyncGenerator[TaskPass]:
        """Visits in order, those left out that were concluded before."""
        desk, rules, ledger = self._desk, self._desk.rules, self._ledger
        for name, split, task_id, sample, epoch, visit in await ledger.to_be_played_again(MOST_VISITS - 1):
            if name in self._casts:
                cast = self._casts[name][1]
                card = await cast.host.find_task(split, task_id, self._opened.plan.seed)
                yield TaskPass(cast, card, epoch, visit, sample)
        epoch = await ledger.recall(EPOCHS_DONE) or 0
        while rules.epochs is None or epoch < rules.epochs:
            desk.stats.epoch = epoch
            concluded = await ledger.concluded(epoch)
            begun, is_played = 0, False
            async with aclosing(tickets(self._opened, self._casts, epoch, shuffle=rules.shuffle)) as visits:
                async for ticket in visits:
                    is_played = True
                    if desk.is_set_aside(ticket):
                        continue
                    for single in self._split(ticket):
                        if not concluded or self._id_of(single) not in concluded:
                            begun += 1
                            yield single
            if rules.epochs is None and not begun and not concluded:
                raise SupplyError(
                    "every task was set aside: all samples of each broke, time after time; `hub report` says of what"
                    if is_played
                    else "there is no task to play"
                )
            epoch += 1
            ledger.remember(EPOCHS_DONE, desk.lowest_open(epoch))

    def _split(self, ticket: TaskPass) -> list[TaskPass]:
        """The visits that are units of their own."""
        if self._desk.rules.groups:
            return [ticket]
        return [ticket.alone(number) for number in range(self._opened.plan.request.repeats)]

    def _id_of(self, ticket: TaskPass) -> str:
        first = next(ticket.items(self._opened, 1))
        return first.group_id if self._desk.rules.groups else first.rollout_id

    async def _begin(self, ticket: TaskPass) -> None:
        """Let a unit be played; what the store has of it is not played again."""
        desk, writer = self._desk, self._writer
        items = list(ticket.items(self._opened, desk.bounds.samples))
        unit = PendingGroup(ticket, items, is_group=desk.rules.groups, size=desk.bounds.size)
        done = [rollout_id for rollout_id in unit.rollout_ids if writer.is_done(rollout_id)]
        records = await anyio.to_thread.run_sync(_read, self._directory, done) if done else []
        desk.begin(unit)
        for record in records:
            unit.committed(record)
            unit.settled(record.rollout_id)
        self._source.put([item for item in unit.items if item.rollout_id not in done])
        desk.look_at(unit)


def _read(directory: Path, rollout_ids: list[str]) -> list[Rollout]:
    with open_run(directory) as reader:
        return [reader.rollout(rollout_id) for rollout_id in rollout_ids]
