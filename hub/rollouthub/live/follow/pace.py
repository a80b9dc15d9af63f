"""How fast a run goes: the one definition, for the run's own progress line and for everybody who watches it."""

from collections import Counter
from collections.abc import Iterable

WINDOW_SECONDS = 60
"""How far back the present rate looks."""


class RecentPace:
    """How many samples finished in each second of the latest minute in which any did."""

    def __init__(self) -> None:
        self._seconds: Counter[int] = Counter()
        self._newest = 0

    def add(self, moments: Iterable[float]) -> None:
        """Samples finished then, in seconds since the epoch."""
        found = [int(at) for at in moments]
        newest = max(found, default=self._newest)
        if newest > self._newest:
            self._newest = newest
            for second in [second for second in self._seconds if second < newest - WINDOW_SECONDS]:
                del self._seconds[second]
        oldest = self._newest - WINDOW_SECONDS
        self._seconds.update(at for at in found if at >= oldest)

    def withdraw(self, at: float) -> None:
        """A sample that finished then counts by a later attempt."""
        if int(at) in self._seconds:
            self._seconds[int(at)] -= 1

    def since(self, moment: float) -> int:
        """How many finished from a moment on that is at most the window before the latest."""
        return sum(count for second, count in self._seconds.items() if second >= moment)


def present_rate(recent: RecentPace, now: float, seconds: float) -> float | None:
    """Rollouts a second over the last minute of a run that plays for so long; None where none finished in it."""
    window = min(float(WINDOW_SECONDS), seconds)
    return overall_rate(recent.since(now - window), window) or None


def overall_rate(finished: int, seconds: float) -> float | None:
    """Rollouts a second from the first attempt to the last record; None where that took no time."""
    return finished / seconds if seconds > 0 else None
