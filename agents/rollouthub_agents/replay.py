"""`replay`: an agent that plays a stored rollout's responses and calls again, in the environment as it is now."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from rollouthub import AgentError, Seat, Stop
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
        return await play_script(seat, [turn.response for turn in rollout.turns if turn.agent == seat.name])
