"""When a failing server gets no more calls, and how it is readmitted."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CircuitBreakerSettings:
    """The settings of the circuit breaker."""

    failures: int = 5
    """Consecutive failed calls after which a server is taken out. If three calls in ten fail at random, one series
    in 400 is this long.
    """
    base_seconds: float = 1.0
    """Seconds that a server is taken out at first; doubled after each further failure."""
    cap_seconds: float = 15.0
    """Most seconds that a server is taken out before the next health check."""
    check_seconds: float = 5.0
    """Timeout of a health check in seconds."""
    step_seconds: float = 2.0
    """A server on trial gets one call; the number doubles each time this many seconds pass without a failure."""
    patience_seconds: float = 120.0
    """Seconds that calls wait, from the start of an outage, for a model without any working server: a server of a
    large model takes a minute or two to start.
    """
    first_patience_seconds: float = 15.0
    """As `patience_seconds`, for a model that has never answered, so that a wrong set-up is reported soon."""
    fair_seconds: float = 10.0
    """A call that had less time than this, in seconds, and timed out, does not count as the server's failure."""

    def rest_seconds(self, times: int) -> float:
        """Seconds for which a server is taken out, by how often in a row that happened."""
        return min(self.cap_seconds, self.base_seconds * 2 ** min(times - 1, 30))
