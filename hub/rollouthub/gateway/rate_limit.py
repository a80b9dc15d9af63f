"""A rate limit for the requests of one token."""

import time


class TokenBucket:
    """Allows a number of requests per second on average, and bursts of twice as many."""

    __slots__ = ("_at", "_left", "_most", "_per_second")

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._left = self._most = max(1.0, 2 * per_second)
        self._at = time.monotonic()

    def take(self) -> float:
        """Count one request: returns 0 if it is allowed, else the seconds until one will be."""
        now = time.monotonic()
        self._left = min(self._most, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._per_second
        self._left -= 1
        return 0.0
