"""`oracle`: an agent that plays the environment's reference solution, which the verifier must score in full."""

from collections.abc import Sequence

from pydantic import JsonValue

from rollouthub import Message, Seat, Stop
from rollouthub_agents.scripted_play import play_script


class Oracle:
    """Plays the reference solution that the engine gives to it alone. Its rollouts are never trainable."""

    name = "oracle"
    version = "1"
    config: dict[str, JsonValue] = {}

    async def play(self, seat: Seat) -> Stop:
        """Stop at once: without a reference solution there is nothing to play."""
        return Stop.FINISHED

    async def play_reference(self, seat: Seat, reference: Sequence[Message]) -> Stop:
        """Play the reference solution, with real tool calls."""
        return await play_script(seat, reference)
