"""A person as an agent, with the same tools, limits and records as a model."""

import anyio
from pydantic import BaseModel, ConfigDict, JsonValue

from rollouthub import Seat, Stop
from rollouthub_agents.human.human_player import HumanPlayer
from rollouthub_agents.human.screen import Screen
from rollouthub_agents.human.typed_lines import Lines


class HumanConfig(BaseModel):
    """How tasks are shown to the person."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    markdown: bool = False
    """Render the environment's texts as Markdown, instead of showing the text as models read it."""


class Human:
    """An agent that asks the person at the terminal, for one episode at a time."""

    name = "human"
    version = "1"
    config_type = HumanConfig

    def __init__(self, config: HumanConfig, stdin: int = 0) -> None:
        self.config: dict[str, JsonValue] = config.model_dump(mode="json")
        self._settings = config
        self._lines = Lines(stdin)
        self._turn = anyio.Lock()
        self._player: HumanPlayer | None = None

    async def play(self, seat: Seat) -> Stop:
        """Play one episode; episodes that run concurrently wait for the terminal."""
        screen = Screen(is_markdown=self._settings.markdown)
        async with self._turn:
            self._player = HumanPlayer(seat, self._lines, screen)
            try:
                return await self._player.play()
            except anyio.get_cancelled_exc_class():
                screen.note("\nthe time is up, or the run was ended")
                raise
            finally:
                self._player = None

    def interrupt(self) -> bool:
        """Handle Ctrl-C: end the pending question or call; returns False if no episode is being played."""
        if self._player is None:
            return False
        self._player.interrupt()
        return True
