"""What bounds a service, and where it is reached."""

from dataclasses import dataclass

from rollouthub.limits import Deadlines

GRACE_SECONDS = 60.0
"""By how much the engine's own deadlines lie behind an episode's TTL, which is the one to end it."""


@dataclass(frozen=True)
class ServiceRules:
    """What bounds a service."""

    ttl_seconds: float = 3600.0
    """An episode that nobody has ended by then is closed, unscored; openers may ask for less."""
    most_open: int = 1000
    """Most episodes open at once."""
    requests_per_second: float | None = None
    """Of one seat, tool and model calls alike, on the long run; None leaves it to the bounds on calls in flight."""

    practice: bool = False
    """Whether each environment has a fixed URL to try it at, unscored."""
    practice_split: str | None = None
    """Whose tasks it shows; by default an environment's first split that is not the one being served."""
    most_practising: int = 16
    """Practice episodes open at once; they take no room of the others."""

    def deadlines(self, given: Deadlines) -> Deadlines:
        """Deadlines that do not come before the TTL."""
        agent = max(given.agent, self.ttl_seconds + GRACE_SECONDS)
        around = given.setup + agent + given.verify + given.close
        return given.model_copy(update={"agent": agent, "episode": max(given.episode, around)})


@dataclass(frozen=True)
class GatewayPlace:
    """Where agents reach the service."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    public_url: str | None = None
    """As agents reach it, where that is not where it listens."""
