"""The speed of a run, from its number of finished rollouts at several times."""

from collections import deque

_WINDOW_SECONDS = 60.0
_LEAST_SECONDS = 3.0
"""Two observations closer than this give no rate."""


class Pace:
    """Observations of a run within the last minute."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, now: float, done: int) -> None:
        """Record how many rollouts were finished at a time."""
        looks = self._looks
        if looks and done < looks[-1][1]:
            looks.clear()  # another run is there now
        looks.append((now, done))
        while looks[0][0] < now - _WINDOW_SECONDS:
            looks.popleft()

    @property
    def rate(self) -> float | None:
        """Rollouts per second; None if it is unknown yet, or nothing has finished."""
        if not self._looks:
            return None
        (began, first), (ended, last) = self._looks[0], self._looks[-1]
        seconds = ended - began
        return (last - first) / seconds if seconds >= _LEAST_SECONDS and last > first else None


def seconds_left(rate: float | None, done: int | None, planned: int | None) -> float | None:
    """Seconds until all planned rollouts are finished; None if unknown."""
    return max(0, planned - done) / rate if rate and done is not None and planned is not None else None
