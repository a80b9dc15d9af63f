"""Who plays for the engine while the agent is outside."""

from typing import Any, Protocol

from rollouthub.engine.seat import EpisodeSeat
from rollouthub.protocols import Seat, SeatAddress
from rollouthub.rollout import Stop

VISITOR, PRACTICE = "visitor", "practice"
"""As records name who played; nothing that practice is recorded as has a reward."""


class Awaiting(Protocol):
    """What keeps a seat for its agent."""

    async def host(self, seat: EpisodeSeat, address: SeatAddress) -> None:
        """Return once the agent's time is over."""
        ...


class Absent:
    """Stands in a plan for agents that come later, one for each episode."""

    version = "1"

    def __init__(self, name: str = VISITOR) -> None:
        self.name = name
        self.config: dict[str, Any] = {}

    async def play(self, seat: Seat) -> Stop:
        """Nobody is inside."""
        raise AssertionError("a visitor plays from outside")


class ExternalAgent(Absent):
    """Somebody's agent, in one episode."""

    def __init__(self, visit: Awaiting, name: str = VISITOR) -> None:
        super().__init__(name)
        self._visit = visit

    async def play_exposed(self, seat: Seat, address: SeatAddress) -> Stop:
        """Wait until its time is over."""
        assert isinstance(seat, EpisodeSeat)
        await self._visit.host(seat, address)
        return Stop.FINISHED
