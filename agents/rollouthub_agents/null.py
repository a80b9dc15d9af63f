"""`null`: an agent that does nothing. If its rollouts pass, the environment is broken."""

from pydantic import JsonValue

from rollouthub import Seat, Stop


class Null:
    """An agent that stops at once, without a message or a call."""

    name = "null"
    version = "1"
    config: dict[str, JsonValue] = {}

    async def play(self, seat: Seat) -> Stop:
        """Do nothing."""
        return Stop.FINISHED
