"""What a model knows of its own calls, where no router counts them."""

from collections import deque

from rollouthub.models.latency import LATEST


class CallCounts:
    """Of one model in one process."""

    __slots__ = ("calls", "errors", "in_flight", "latest")

    def __init__(self) -> None:
        self.in_flight = self.calls = self.errors = 0
        """On their way; ever begun; failed."""
        self.latest: deque[float] = deque(maxlen=LATEST)
        """Seconds of the latest answers."""
