"""The speed of a run, in rollouts per second: one definition for the progress line and for all views."""

from collections import Counter
from collections.abc import Iterable

WINDOW_SECONDS = 60
"""Length in seconds of the window over which the present rate is measured."""


class RecentPace:
    """Number of samples that finished in each second of the minute before the latest finish."""

    def __init__(self) -> None:
        self._seconds: Counter[int] = Counter()
        self._newest = 0

    def add(self, moments: Iterable[float]) -> None:
        """Count samples that finished at these times, in Unix seconds."""
        found = list(moments)
        newest = int(max(found, default=self._newest))
        if newest > self._newest:
            self._newest = newest
            for second in [second for second in self._seconds if second < newest - WINDOW_SECONDS]:
                del self._seconds[second]
        oldest = self._newest - WINDOW_SECONDS
        self._seconds.update(int(at) for at in found if at >= oldest)

    def withdraw(self, at: float) -> None:
        """Remove a sample, because a later attempt at it now counts."""
        if int(at) in self._seconds:
            self._seconds[int(at)] -= 1

    def since(self, moment: float) -> int:
        """Number of samples that finished at or after a time, which may lie at most `WINDOW_SECONDS` before the
        latest finish.
        """
        return sum(count for second, count in self._seconds.items() if second >= moment)


def present_rate(recent: RecentPace, now: float, seconds: float) -> float | None:
    """Rollouts per second over the last minute of a running run, or over its `seconds` if they are fewer; None if
    none finished in it.
    """
    window = min(float(WINDOW_SECONDS), seconds)
    return overall_rate(recent.since(now - window), window) or None


def overall_rate(finished: int, seconds: float) -> float | None:
    """Rollouts per second over a run's duration; None if the duration is zero."""
    return finished / seconds if seconds > 0 else None
