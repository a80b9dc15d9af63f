"""One question, one answer, no tools."""

from pydantic import JsonValue

from rollouthub import Seat, Stop


class SingleTurn:
    """Generate once and stop: for problems answered in words."""

    name = "single_turn"
    version = "1"
    needs_model = True
    config: dict[str, JsonValue] = {}

    async def play(self, seat: Seat) -> Stop:
        """Ask once."""
        await seat.generate(seat.messages, tools=())
        return Stop.FINISHED
