"""`hub bench schedule`: the real scheduler in virtual time, with more workers and samples than a test could play."""

import heapq
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from rollouthub.engine.run_request import Retries
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.engine.schedule import QueuedAttempt, Schedule
from rollouthub.protocols import TaskCard
from rollouthub.rollout import Fault, Outcome, Rollout, TaskRef
from rollouthub.score import Score
from rollouthub.telemetry.memory import resident_bytes

WORKERS, SLOTS = 64, 256
SIZES = (10_000, 100_000, 1_000_000)
FAULT_SHARE = 0.02
"""Share of attempts that end in an infrastructure fault and are retried."""
LOST_EVERY_SECONDS = 600.0
"""Virtual seconds between two losses of a worker, whose attempts are all played again."""
_POISON_EVERY = 50_000
"""One sample in this many kills its worker every time it is played."""


@dataclass(frozen=True)
class ScheduleRow:
    """The measurements of one simulated run."""

    items: int
    microseconds_per_item: float
    """CPU microseconds per sample, of the scheduler and the simulation around it."""
    growth_mb: float
    """Growth of resident memory from the start to the end, in megabytes."""
    retried: int
    lost_workers: int
    set_aside: int
    """Samples given up, because their worker was lost each time they were played, the last time alone."""
    virtual_hours: float
    efficiency: float
    """Share of the slots' virtual time spent on attempts that were scored."""


def measure_schedule(sizes: Sequence[int], say: Callable[[str], None]) -> list[ScheduleRow]:
    """Simulate runs of these sizes."""
    rows: list[ScheduleRow] = []
    for size in sizes:
        say(f"{size:,} samples on {WORKERS} workers …")
        rows.append(Simulation(size).run())
    return rows


def as_json(rows: Sequence[ScheduleRow]) -> dict[str, Any]:
    """The rows as `hub bench schedule --json` prints them."""
    return {"workers": WORKERS, "slots": SLOTS, "rows": [asdict(row) for row in rows]}


class Simulation:
    """A simulated run: workers with slots, episodes with durations, random faults, lost workers and poison samples."""

    def __init__(self, items: int, seed: int = 1) -> None:
        self._count, self._chance = items, random.Random(seed)
        self._schedule = Schedule(lambda rollout_id: 0, Retries(), jitter=self._chance.random)
        self._items = simulated_items(items)
        self._is_exhausted = False
        self._now = 0.0
        self._events: list[tuple[float, int, int, QueuedAttempt | None]] = []
        self._number = 0
        self._playing: list[dict[int, tuple[QueuedAttempt, float]]] = [{} for _ in range(WORKERS)]
        self._free = list(range(WORKERS))
        self._finished = self._set_aside = self._lost = 0
        self._busy_seconds = 0.0

    def run(self) -> ScheduleRow:
        """Simulate until every sample is finished or set aside."""
        before, cpu = resident_bytes(), time.process_time()
        self._at(LOST_EVERY_SECONDS, -1, None)
        self._fill()
        while self._finished + self._set_aside < self._count:
            self._now, number, worker, work = heapq.heappop(self._events)
            if worker < 0:
                if work is None:
                    self._lose(self._chance.randrange(WORKERS))
                    self._at(self._now + LOST_EVERY_SECONDS, -1, None)
            elif work is not None and (played := self._playing[worker].pop(number, None)) is not None:
                self._end(*played, worker)
            self._fill()
        used = time.process_time() - cpu
        return ScheduleRow(
            items=self._count,
            microseconds_per_item=round(used * 1e6 / self._count, 2),
            growth_mb=round((resident_bytes() - before) / 1e6, 1),
            retried=self._schedule.retried,
            lost_workers=self._lost,
            set_aside=self._set_aside,
            virtual_hours=round(self._now / 3600, 2),
            efficiency=round(self._busy_seconds / (self._now * WORKERS * SLOTS), 3),
        )

    def _at(self, when: float, worker: int, work: QueuedAttempt | None) -> int:
        self._number += 1
        heapq.heappush(self._events, (when, self._number, worker, work))
        return self._number

    def _fill(self) -> None:
        """Fill the free slots of all workers, and play suspect samples alone."""
        while (work := self._schedule.take_alone(self._now)) is not None:
            if _is_poison(work):
                self._lost += 1
                self._set_aside += not self._schedule.lost(work, self._now)
            else:
                self._finished += 1
                self._schedule.ended(work, SCORED, self._now)
        while self._free:
            worker = self._free[-1]
            playing = self._playing[worker]
            if len(playing) >= SLOTS:
                self._free.pop()
                continue
            work = self._next()
            if work is None:
                seconds = self._schedule.due_in(self._now)
                if seconds:
                    self._at(self._now + seconds, WORKERS, None)
                return
            length = 30.0 * self._chance.lognormvariate(0.0, 0.5)
            playing[self._at(self._now + length, worker, work)] = work, length

    def _next(self) -> QueuedAttempt | None:
        work = self._schedule.take(self._now)
        if work is None and not self._is_exhausted:
            sample = next(self._items, None)
            if sample is None:
                self._is_exhausted = True
            else:
                self._schedule.add(sample)
                work = self._schedule.take(self._now)
        return work

    def _end(self, work: QueuedAttempt, seconds: float, worker: int) -> None:
        if len(self._playing[worker]) == SLOTS - 1:
            self._free.append(worker)
        if _is_poison(work):
            self._playing[worker][0] = work, seconds
            self._lose(worker)
        elif self._chance.random() < FAULT_SHARE and work.broken[0] < 2:
            self._schedule.ended(work, BROKEN, self._now)
        else:
            self._finished += 1
            self._busy_seconds += seconds
            self._schedule.ended(work, SCORED, self._now)

    def _lose(self, worker: int) -> None:
        """Lose a worker and replace it at once."""
        playing, self._playing[worker] = self._playing[worker], {}
        if len(playing) >= SLOTS:
            self._free.append(worker)
        self._lost += 1
        for work, _ in playing.values():
            self._set_aside += not self._schedule.lost(work, self._now)


def _is_poison(work: QueuedAttempt) -> bool:
    return work.sample.index == 1


def simulated_items(count: int) -> Iterator[Sample]:
    """Samples with ids but no tasks; some are poison."""
    cast_, card, task = cast(SampleContext, None), cast(TaskCard, None), TaskRef(split="test", id="test/0", digest="")
    for number in range(count):
        name = f"{number:016x}"
        is_poison = number % _POISON_EVERY == _POISON_EVERY - 1
        yield Sample(cast_, card, task, name, name, int(is_poison), number, None)


SCORED = Rollout.model_construct(outcome=Outcome.SCORED, score=Score(reward=1.0), faults=())
BROKEN = Rollout.model_construct(
    outcome=Outcome.MODEL_FAILED,
    score=None,
    faults=(Fault(boundary="model", phase="agent", type="ModelError", message="simulated", retryable=True),),
)
