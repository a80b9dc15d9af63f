"""Plays the environment's own reference solution: what the verifier must give full marks."""

from collections.abc import Sequence

from pydantic import JsonValue

from rollouthub import Message, Seat, Stop
from rollouthub_agents.scripted_play import play_script


class Oracle:
    """Privileged: the engine hands it the reference solution. Its rollouts are never trainable."""

    name = "oracle"
    version = "1"
    config: dict[str, JsonValue] = {}

    async def play(self, seat: Seat) -> Stop:
        """Nothing to play without a reference."""
        return Stop.FINISHED

    async def play_reference(self, seat: Seat, reference: Sequence[Message]) -> Stop:
        """Play the reference through the real tools."""
        return await play_script(seat, reference)
