"""Decides which attempt is next: new samples, and retries of broken ones, a limited number for each.

Pure and synchronous: each call gets the time, so that the same code runs in a pool and in simulated time.
"""

import heapq
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rollouthub.engine.run_request import Retries
from rollouthub.engine.sample import Sample
from rollouthub.errors import BudgetError, ServerGone
from rollouthub.rollout import Rollout

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 10.0
MOST_LOSSES = 3
"""Number of workers that may die while playing the same sample; the last of them plays nothing else."""
MOST_UNDECIDED = 4096
"""Most samples without a result that are remembered (the latest), so that a person can have one played again."""
_HOPELESS = frozenset({BudgetError.__name__, ServerGone.__name__})
"""Types of faults that every later sample would have, too: the run stops."""


@dataclass(slots=True, eq=False)
class QueuedAttempt:
    """An attempt at a sample that waits or is being played."""

    sample: Sample
    attempt: int
    queued: float = 0.0
    """Seconds from the end of the previous attempt to the start of this one."""
    is_alone: bool = False
    """Whether the attempt must be played with nothing beside it: workers died with the sample, and this is its last
    try.
    """
    retries: int = 0
    broken: tuple[int, int] = (0, 0)
    """Number of attempts that ended in an infrastructure fault, and in a verifier fault."""
    losses: int = 0
    """Number of attempts whose worker died; they are not counted in `broken`."""
    ended_at: float = 0.0

    @property
    def key(self) -> tuple[str, int]:
        """The rollout id and the attempt's number, unique in a run."""
        return self.sample.rollout_id, self.attempt


class Schedule:
    """Samples to play, in flight, or waiting for a retry. The cost of `take` and `ended` does not grow with their
    number, except for the retries' heap.
    """

    def __init__(
        self,
        attempts: Callable[[str], int],
        retries: Retries,
        *,
        by_environment: bool = False,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`attempts` gives the number of stored attempts at a sample; `by_environment` keeps a queue for each
        environment.
        """
        self._attempts, self._retries, self._jitter = attempts, retries, jitter
        self._by_environment = by_environment
        self._new: dict[str, deque[Sample]] = {}
        self._again: dict[str, list[tuple[float, int, QueuedAttempt]]] = {}
        self._alone: deque[QueuedAttempt] = deque()
        self._undecided: OrderedDict[str, QueuedAttempt] = OrderedDict()
        self._count = 0
        self.in_flight = 0
        self.waiting = 0
        """Number of samples, new or to be retried, that are not in flight."""
        self.retried = 0
        """Number of attempts that were followed by another."""

    @property
    def is_idle(self) -> bool:
        """Whether no sample is in flight or waiting."""
        return not self.in_flight and not self.waiting

    @property
    def has_alone(self) -> bool:
        """Whether an attempt waits that must be played alone."""
        return bool(self._alone)

    @property
    def undecided(self) -> Sequence[str]:
        """Rollout ids of samples that ended without a result and are not retried automatically, oldest first."""
        return tuple(self._undecided)

    def waits(self, rollout_id: str) -> bool:
        """Whether a sample, new or to be retried, waits and is not in flight. Searches all waiting samples."""
        again = (work for lane in self._again.values() for _, _, work in lane)
        if any(work.sample.rollout_id == rollout_id for works in (again, self._alone) for work in works):
            return True
        return any(sample.rollout_id == rollout_id for lane in self._new.values() for sample in lane)

    def add(self, sample: Sample) -> None:
        """Add a new sample."""
        self._new.setdefault(self._lane(sample), deque()).append(sample)
        self.waiting += 1

    def read(self, environment: str = "") -> int:
        """Number of new samples that wait, of one environment if each has its own queue."""
        return len(self._new.get(environment, ()))

    def take(self, now: float, environment: str = "") -> QueuedAttempt | None:
        """The next attempt: a retry whose pause is over, else a new sample; None if there is neither."""
        again = self._again.get(environment)
        if again and again[0][0] <= now:
            work = heapq.heappop(again)[2]
            work.queued = now - work.ended_at
        elif new := self._new.get(environment):
            sample = new.popleft()
            work = QueuedAttempt(sample, self._attempts(sample.rollout_id))
        else:
            return None
        return self._begin(work)

    def take_alone(self, now: float) -> QueuedAttempt | None:
        """The next attempt that must be played with nothing beside it."""
        if not self._alone:
            return None
        work = self._alone.popleft()
        work.queued = now - work.ended_at
        return self._begin(work)

    def due_in(self, now: float, environment: str = "") -> float | None:
        """Seconds until the next retry may start; None if there is no retry."""
        again = self._again.get(environment)
        return max(0.0, again[0][0] - now) if again else None

    def give_back(self, work: QueuedAttempt) -> None:
        """Put back an attempt that was taken and never started."""
        self.in_flight -= 1
        self.waiting += 1
        if work.is_alone:
            self._alone.appendleft(work)
        elif work.retries:
            self._wait(work, work.ended_at)
        else:
            self._new.setdefault(self._lane(work.sample), deque()).appendleft(work.sample)

    def ended(self, work: QueuedAttempt, rollout: Rollout, now: float) -> str | None:
        """Note the end of an attempt, and plan a retry if the sample gets one.

        Returns:
            Why the whole run should stop; None if it should not.
        """
        self.in_flight -= 1
        infrastructure, verifier = work.broken
        match rollout.outcome.kind:
            case "infrastructure_fault":
                infrastructure += 1
            case "verifier_fault":
                verifier += 1
            case "scored" | "agent_failure":
                return None  # the sample's result, which nobody chooses among
            case _:
                self._acquit(work)
                self._remember(work)
                return None
        hopeless = next((fault for fault in rollout.faults if fault.type in _HOPELESS), None)
        if hopeless is not None:
            # With more money, or a server that works, `--resume` tries the rest.
            return hopeless.message
        work.broken = infrastructure, verifier
        # What went wrong in closing says nothing of another attempt.
        if self._may_go_on(work) and all(fault.retryable for fault in rollout.faults if fault.phase != "close"):
            if work.is_alone:
                self._acquit(work)
            pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2**work.retries) * (0.5 + 0.5 * self._jitter())
            self._again_later(work, now)
            self._wait(work, now + pause)
        else:
            self._acquit(work)
            self._remember(work)
        return None

    def lost(self, work: QueuedAttempt, now: float) -> bool:
        """Note that the worker that played a sample died, perhaps because of that sample; True if the sample is
        retried.

        The last try is played alone: if that worker dies, too, this sample is the cause, and no other is blamed.
        """
        self.in_flight -= 1
        work.losses += 1
        if work.losses == MOST_LOSSES or not self._retries.infrastructure:
            self._remember(work)
            return False
        self._again_later(work, now)
        if work.losses == MOST_LOSSES - 1:
            self._wait_alone(work)
        else:
            self._wait(work, now)
        return True

    def retry(self, rollout_id: str, now: float) -> bool:
        """Retry a sample that ended without a result, because a person asked; False if no such sample is known.

        The sample gets the full number of retries again. If its last worker died, it is played alone.
        """
        work = self._undecided.pop(rollout_id, None)
        if work is None:
            return False
        work.broken = 0, 0
        self._again_later(work, now)
        if work.losses:
            work.losses = MOST_LOSSES - 1
            self._wait_alone(work)
        else:
            self._wait(work, now)
        return True

    def _remember(self, work: QueuedAttempt) -> None:
        self._undecided[work.sample.rollout_id] = work
        if len(self._undecided) > MOST_UNDECIDED:
            self._undecided.popitem(last=False)

    def _acquit(self, work: QueuedAttempt) -> None:
        """Clear a sample of the suspicion that it kills workers: its worker survived it."""
        work.is_alone, work.losses = False, 0

    def _wait_alone(self, work: QueuedAttempt) -> None:
        work.is_alone = True
        self._alone.append(work)

    def _may_go_on(self, work: QueuedAttempt) -> bool:
        return work.broken[0] <= self._retries.infrastructure and work.broken[1] <= self._retries.verifier

    def _again_later(self, work: QueuedAttempt, now: float) -> None:
        work.attempt, work.retries, work.ended_at = work.attempt + 1, work.retries + 1, now
        self.retried += 1
        self.waiting += 1

    def _wait(self, work: QueuedAttempt, until: float) -> None:
        self._count += 1
        heapq.heappush(self._again.setdefault(self._lane(work.sample), []), (until, self._count, work))

    def _begin(self, work: QueuedAttempt) -> QueuedAttempt:
        self.in_flight += 1
        self.waiting -= 1
        return work

    def _lane(self, sample: Sample) -> str:
        return sample.context.environment.name if self._by_environment else ""
