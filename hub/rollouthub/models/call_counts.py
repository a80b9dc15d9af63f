"""Counts of a model's calls, for models without a router that would count them."""

from collections import deque

from rollouthub.models.latency import LATEST


class CallCounts:
    """Counts of one model's calls in one process."""

    __slots__ = ("calls", "errors", "in_flight", "latest")

    def __init__(self) -> None:
        self.in_flight = self.calls = self.errors = 0
        """Calls in flight, calls begun, and calls that failed."""
        self.latest: deque[float] = deque(maxlen=LATEST)
        """The durations of the latest answers in seconds."""
