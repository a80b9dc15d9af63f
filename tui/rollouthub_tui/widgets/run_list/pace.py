"""How fast a run goes, from what it had done when it was looked at."""

from collections import deque

_WINDOW_SECONDS = 60.0
_LEAST_SECONDS = 3.0
"""Before that, two looks say nothing of a rate."""


class Pace:
    """Looks at a run, the latest minute of them."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, now: float, done: int) -> None:
        """So much was done then."""
        looks = self._looks
        if looks and done < looks[-1][1]:
            looks.clear()  # another run is there now
        looks.append((now, done))
        while looks[0][0] < now - _WINDOW_SECONDS:
            looks.popleft()

    @property
    def rate(self) -> float | None:
        """Rollouts a second; None where that cannot be said yet, or nothing moved."""
        if not self._looks:
            return None
        (began, first), (ended, last) = self._looks[0], self._looks[-1]
        seconds = ended - began
        return (last - first) / seconds if seconds >= _LEAST_SECONDS and last > first else None


def seconds_left(rate: float | None, done: int | None, planned: int | None) -> float | None:
    """Until everything planned is done; None where that cannot be said."""
    return max(0, planned - done) / rate if rate and done is not None and planned is not None else None
