"""A person as an agent: the same tools, the same limits, the same record."""

import anyio
from pydantic import BaseModel, ConfigDict, JsonValue

from rollouthub import Seat, Stop
from rollouthub_agents.human.human_player import HumanPlayer
from rollouthub_agents.human.screen import Screen
from rollouthub_agents.human.typed_lines import Lines


class HumanConfig(BaseModel):
    """How a person likes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    markdown: bool = False
    """Show what the environment says as Markdown, not as the text a model reads."""


class Human:
    """Asks the person at the terminal, one episode at a time."""

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
        """Play one episode; others wait for the terminal."""
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
        """Ctrl-C was pressed; False where nobody plays."""
        if self._player is None:
            return False
        self._player.interrupt()
        return True
