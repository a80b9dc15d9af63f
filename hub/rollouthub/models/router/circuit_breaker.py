"""When a server is left alone, and how it comes back."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cooling:
    """Limits of patience with a failing server."""

    failures: int = 5
    """Failed calls in a row that take it out; of calls that fail at random three in ten, one in 400 rows is as long."""
    base_seconds: float = 1.0
    """How long it is left alone at first; twice as long after each further failure."""
    cap_seconds: float = 15.0
    """The longest it is left alone before it is looked at again."""
    check_seconds: float = 5.0
    """How long a health check may take."""
    step_seconds: float = 2.0
    """On trial, it gets one call; then as many again each time so long passes without a failure."""
    patience_seconds: float = 120.0
    """How long calls wait for a model none of whose servers is up, from the start of the outage: a server of a large
    model takes a minute or two to start."""
    first_patience_seconds: float = 15.0
    """The same for a model that has never answered: what is set up wrong is to be told soon."""
    fair_seconds: float = 10.0
    """A call that had less time than this and ran out of it says nothing about its server."""

    def rest_seconds(self, times: int) -> float:
        """How long to leave a server alone that has been taken out so many times in a row."""
        return min(self.cap_seconds, self.base_seconds * 2 ** min(times - 1, 30))
