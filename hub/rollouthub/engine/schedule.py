"""Which attempt is next: new samples, and those whose attempt broke, each a finite number of times.

Pure and synchronous: the clock is given with each call, so that the same code runs in a pool and in virtual time.
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
"""Players that may be lost with a sample in flight; the last one played nothing else."""
MOST_UNDECIDED = 4096
"""Samples that ended without a result and are remembered, the latest: somebody may want one played again."""
_HOPELESS = frozenset({BudgetError.__name__, ServerGone.__name__})
"""Faults that every later sample would meet, too."""


@dataclass(slots=True, eq=False)
class QueuedAttempt:
    """One attempt at a sample, to be played."""

    item: Sample
    attempt: int
    queued: float = 0.0
    """Seconds since the attempt before it ended."""
    is_alone: bool = False
    """To be played with nothing beside it: whoever played it before was lost, and this is its last try."""
    retries: int = 0
    broken: tuple[int, int] = (0, 0)
    """Attempts that ended in an infrastructure fault, and in a verifier's."""
    losses: int = 0
    """Attempts whose player was lost with them; no faults of their own."""
    ended_at: float = 0.0

    @property
    def key(self) -> tuple[str, int]:
        """Names the attempt in its run."""
        return self.item.rollout_id, self.attempt


class Schedule:
    """Samples on their way: read, in flight, waiting for another attempt. A few steps each, however many there are."""

    def __init__(
        self,
        attempts: Callable[[str], int],
        retries: Retries,
        *,
        by_environment: bool = False,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`attempts` says how many of a sample are kept from before; `by_environment` lets players ask for one's."""
        self._attempts, self._retries, self._jitter = attempts, retries, jitter
        self._by_environment = by_environment
        self._new: dict[str, deque[Sample]] = {}
        self._again: dict[str, list[tuple[float, int, QueuedAttempt]]] = {}
        self._alone: deque[QueuedAttempt] = deque()
        self._undecided: OrderedDict[str, QueuedAttempt] = OrderedDict()
        self._count = 0
        self.in_flight = 0
        self.waiting = 0
        """Samples that are read, or to be tried again, and not in flight."""
        self.retried = 0
        """Attempts that were followed by another."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight or waiting."""
        return not self.in_flight and not self.waiting

    @property
    def has_alone(self) -> bool:
        """Whether something waits that must be played alone."""
        return bool(self._alone)

    @property
    def undecided(self) -> Sequence[str]:
        """Samples that ended without a score and are not tried again by themselves: the latest, oldest first."""
        return tuple(self._undecided)

    def waits(self, rollout_id: str) -> bool:
        """Whether a sample is read, or to be tried again, and not in flight. Looks at all of them."""
        again = (work for lane in self._again.values() for _, _, work in lane)
        if any(work.item.rollout_id == rollout_id for works in (again, self._alone) for work in works):
            return True
        return any(item.rollout_id == rollout_id for lane in self._new.values() for item in lane)

    def add(self, item: Sample) -> None:
        """A sample that is to be played."""
        self._new.setdefault(self._lane(item), deque()).append(item)
        self.waiting += 1

    def read(self, environment: str = "") -> int:
        """How many new samples wait: those of an environment, where they are kept apart."""
        return len(self._new.get(environment, ()))

    def take(self, now: float, environment: str = "") -> QueuedAttempt | None:
        """The next attempt: what broke before and has waited, else a new sample; None where there is neither yet."""
        again = self._again.get(environment)
        if again and again[0][0] <= now:
            work = heapq.heappop(again)[2]
            work.queued = now - work.ended_at
        elif new := self._new.get(environment):
            item = new.popleft()
            work = QueuedAttempt(item, self._attempts(item.rollout_id))
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
        """Seconds until something that broke may be tried again; None where nothing waits for that."""
        again = self._again.get(environment)
        return max(0.0, again[0][0] - now) if again else None

    def give_back(self, work: QueuedAttempt) -> None:
        """It was taken, and nobody began to play it."""
        self.in_flight -= 1
        self.waiting += 1
        if work.is_alone:
            self._alone.appendleft(work)
        elif work.retries:
            self._wait(work, work.ended_at)
        else:
            self._new.setdefault(self._lane(work.item), deque()).appendleft(work.item)

    def ended(self, work: QueuedAttempt, rollout: Rollout, now: float) -> str | None:
        """An attempt is over, and perhaps another follows; why the whole run had better stop, where that is so."""
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
        """Whoever played it is gone, perhaps because of it; whether it is tried again.

        Its last try is played alone: who dies of it then shows it to be the cause, and everyone else goes free.
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
        """Try a sample again that ended without a result, because somebody asked; False where none such is known.

        It may break as often as a new one. Where its last player was lost with it, it is played alone.
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
        self._undecided[work.item.rollout_id] = work
        if len(self._undecided) > MOST_UNDECIDED:
            self._undecided.popitem(last=False)

    def _acquit(self, work: QueuedAttempt) -> None:
        """Whoever played it lives: it is not what others died of."""
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
        heapq.heappush(self._again.setdefault(self._lane(work.item), []), (until, self._count, work))

    def _begin(self, work: QueuedAttempt) -> QueuedAttempt:
        self.in_flight += 1
        self.waiting -= 1
        return work

    def _lane(self, item: Sample) -> str:
        return item.cast.environment.name if self._by_environment else ""
