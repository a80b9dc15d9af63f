"""`single_turn`: an agent that generates one answer, without tools."""

from pydantic import JsonValue

from rollouthub import Seat, Stop


class SingleTurn:
    """Generates once and stops, for problems that are answered in text."""

    name = "single_turn"
    version = "1"
    needs_model = True
    asks_once = True
    config: dict[str, JsonValue] = {}

    async def play(self, seat: Seat) -> Stop:
        """Ask the model once, without tools."""
        await seat.generate(seat.messages, tools=())
        return Stop.FINISHED
