"""A histogram of rewards with at most 24 bins, for any range of rewards."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, isnan

from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.incremental import IncrementalView

MOST_BINS = 24
_FINEST = 5e-6
_MOST = 1.7e308


@dataclass(frozen=True, slots=True)
class Bin:
    """Number of rewards that are at least `low` and below `high`."""

    low: float
    high: float
    count: int


class RewardBins:
    """The finest bins that a limited number allows. Widths alternate between 1 and 5 times a power of ten, so each
    divides the next.
    """

    def __init__(self) -> None:
        self._bins: Counter[int] = Counter()
        self._finest = 1
        self._next = 2
        self._low = self._high = 0.0

    @property
    def width(self) -> float:
        """Width of one bin, in the rewards' unit."""
        return _FINEST * self._finest

    @property
    def bins(self) -> list[Bin]:
        """All bins from the lowest reward to the highest, including empty ones; empty without rewards."""
        if not self._bins:
            return []
        places = range(min(self._bins), max(self._bins) + 1)
        width = self.width
        return [Bin(place * width, (place + 1) * width, self._bins[place]) for place in places]

    def add(self, rewards: Sequence[float]) -> None:
        """Add rewards."""
        if not rewards:
            return
        low, high = min(rewards), max(rewards)
        if self._bins:
            low, high = min(low, self._low), max(high, self._high)
        self._low, self._high = low, high
        while not self._fits(low, high):
            self._widen()
        self._bins.update(self._places(rewards))

    def withdraw(self, reward: float) -> None:
        """Remove a reward that was added."""
        self._bins.subtract(self._places((reward,)))

    def _fits(self, low: float, high: float) -> bool:
        first, last = self._places((low, high))
        return last - first < MOST_BINS

    def _widen(self) -> None:
        """Merge neighbouring bins, alternately by twos and by fives."""
        merged: Counter[int] = Counter()
        for place, count in self._bins.items():
            merged[place // self._next] += count
        self._bins = merged
        self._finest *= self._next
        self._next = 7 - self._next

    def _places(self, rewards: Iterable[float]) -> list[int]:
        """Indices of the rewards' bins. They are computed from the finest bins, so that they do not depend on when bins
        were merged.

        A reward that is below a boundary only by a rounding error counts as at it.
        """
        finest = self._finest
        return [floor(min(max(reward / _FINEST, -_MOST), _MOST) + 1e-6) // finest for reward in rewards]


class RewardHistogram(IncrementalView):
    """Histogram of the rewards of a run's effective attempts."""

    def __init__(self, columns: AttemptColumns) -> None:
        super().__init__(columns)
        self._clear()

    def _clear(self) -> None:
        self._rewards = RewardBins()

    @property
    def width(self) -> float:
        """Width of one bin, in the rewards' unit."""
        return self._rewards.width

    @property
    def bins(self) -> list[Bin]:
        """All bins from the lowest reward to the highest, including empty ones; empty without rewards."""
        return self._rewards.bins

    def _add(self, start: int, stop: int) -> None:
        self._rewards.add(
            [reward for reward in self._columns.effective_part("reward", start, stop) if reward == reward]
        )

    def _withdraw(self, place: int) -> None:
        reward = self._columns.numbers["reward"][place]
        if not isnan(reward):
            self._rewards.withdraw(reward)
