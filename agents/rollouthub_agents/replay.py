"""`replay`: an agent that plays a stored rollout's responses and calls again, in the environment as it is now."""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from rollouthub import AgentError, Message, Seat, Stop, ToolCall, ToolRequest, Turn
from rollouthub.errors import UnknownNameError
from rollouthub.store import open_run
from rollouthub_agents.scripted_play import play_script


class ReplayConfig(BaseModel):
    """Which stored run is played again."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    run: Path
    """The directory of the stored run."""


class Replay:
    """Plays each sample as the stored run did, without a model."""

    name = "replay"
    version = "1"
    config_type = ReplayConfig

    def __init__(self, config: ReplayConfig) -> None:
        self._run = config.run
        self.config: dict[str, JsonValue] = {"run": str(config.run)}
        with open_run(config.run):
            pass  # a wrong path is the caller's error now, not one per rollout later

    async def play(self, seat: Seat) -> Stop:
        """Stop at once: without a stored sample there is nothing to play."""
        return Stop.FINISHED

    async def play_sample(self, seat: Seat, rollout_id: str) -> Stop:
        """Play the responses that the stored rollout has for this seat.

        Raises:
            AgentError: the stored run does not have this rollout.
        """
        with open_run(self._run) as stored:
            try:
                rollout = stored.rollout(rollout_id)
            except UnknownNameError as error:
                raise AgentError(f"run {self._run} has no rollout {rollout_id!r} to replay") from error
        return await play_script(seat, [_as_played(turn) for turn in rollout.turns if turn.agent == seat.name])


def _as_played(turn: Turn) -> Message:
    """A turn's response with all calls that were made for it: some agents read them from its text, or add their own."""
    named = {request.id for request in turn.response.tool_requests}
    made = tuple(_request(call) for call in turn.tool_calls if call.id not in named)
    if not made:
        return turn.response
    return turn.response.model_copy(update={"tool_requests": (*turn.response.tool_requests, *made)})


def _request(call: ToolCall) -> ToolRequest:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    return ToolRequest(id=call.id, name=call.name, arguments=arguments)
