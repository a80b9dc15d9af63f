"""Does nothing: an environment whose untouched state passes is broken."""

from pydantic import JsonValue

from rollouthub import Seat, Stop


class Null:
    """Leaves at once, without a word or a call."""

    name = "null"
    version = "1"
    config: dict[str, JsonValue] = {}

    async def play(self, seat: Seat) -> Stop:
        """Do nothing."""
        return Stop.FINISHED
