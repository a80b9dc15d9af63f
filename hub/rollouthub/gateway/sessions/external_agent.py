"""The agent objects that stand for agents outside the hub."""

from typing import Any, Protocol
from weakref import ref

from rollouthub.engine.seat import EpisodeSeat
from rollouthub.protocols import Seat, SeatAddress
from rollouthub.rollout import Stop

EXTERNAL_AGENT, PRACTICE = "visitor", "practice"
"""The agents' names in records; rollouts of `practice` never have a reward."""


class Awaiting(Protocol):
    """An object that keeps a seat open for its outside agent."""

    async def host(self, seat: EpisodeSeat, address: SeatAddress) -> Stop:
        """Return once the agent's time is over, with the reason."""
        ...


class AbsentAgent:
    """A placeholder in a plan whose agents connect later, one for each episode."""

    version = "1"

    def __init__(self, name: str = EXTERNAL_AGENT) -> None:
        self.name = name
        self.config: dict[str, Any] = {}

    async def play(self, seat: Seat) -> Stop:
        """Never called: the agent plays from outside."""
        raise AssertionError("an external agent plays from outside")


class ExternalAgent(AbsentAgent):
    """An outside agent in one episode."""

    def __init__(self, session: Awaiting, name: str = EXTERNAL_AGENT) -> None:
        super().__init__(name)
        self._session = ref(session)  # which holds its attempt, and that its agent

    async def play_listening(self, seat: Seat, address: SeatAddress) -> Stop:
        """Keep the seat open until the agent's time is over."""
        session = self._session()
        assert isinstance(seat, EpisodeSeat)
        assert session is not None, "whoever plays a session holds it"
        return await session.host(seat, address)
