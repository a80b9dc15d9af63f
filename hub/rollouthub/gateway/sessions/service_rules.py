"""The limits of a service, and its address."""

from dataclasses import dataclass

from rollouthub.limits import Deadlines

GRACE_SECONDS = 60.0
"""Seconds by which the engine's deadlines exceed an episode's time to live, so that the latter ends it first."""


@dataclass(frozen=True)
class ServiceRules:
    """The bounds of a service: open episodes, their time to live, requests per second, and practice."""

    ttl_seconds: float = 3600.0
    """Time to live in seconds: an episode still open then is closed, unscored. A request may set a shorter time."""
    turn_seconds: float | None = 600.0
    """Where seats take turns: a seat that is silent for this many seconds counts as gone; None waits for the time to
    live.
    """
    most_open: int = 1000
    """Most episodes open at once."""
    requests_per_second: float | None = None
    """Most requests of one seat per second on average, tool and model calls together; None limits only calls in
    flight.
    """

    practice: bool = False
    """Whether each environment has a fixed URL for unscored practice."""
    practice_split: str | None = None
    """The split whose tasks are practised; by default an environment's first split that is not being served."""
    most_practising: int = 16
    """Most practice episodes open at once, beside `most_open`."""

    def deadlines(self, given: Deadlines) -> Deadlines:
        """The deadlines, extended where they would end an episode before its time to live."""
        agent = max(given.agent, self.ttl_seconds + GRACE_SECONDS)
        around = given.setup + agent + given.verify + given.close
        return given.model_copy(update={"agent": agent, "episode": max(given.episode, around)})


@dataclass(frozen=True)
class GatewayPlace:
    """The address at which agents reach the service."""

    host: str = "127.0.0.1"
    port: int = 0
    """The port; 0 picks a free one."""
    public_url: str | None = None
    """The URL by which agents reach the gateway, if it differs from the listening address."""
