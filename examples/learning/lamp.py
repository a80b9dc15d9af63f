"""A whole environment in one file: look at a lamp, then press the key of its colour.

hub run examples/learning/lamp.py --limit 20              # the reference solution plays: 1.000 if the rules hold
"""

from collections.abc import Iterable, Sequence

from rollouthub import (
    Environment,
    EnvironmentConfig,
    Limits,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    ToolError,
    ToolRequest,
    tool,
)

COLOURS = ("red", "green", "blue")
PROMPT = "look at the lamp then press the key of its colour"


class LampConfig(EnvironmentConfig):
    """The settings of the environment, for `--set key=value`."""

    size: int = 60
    """Number of tasks."""


class Lamp(Environment[LampConfig]):
    """Only a look reveals the lamp's colour; the first key pressed counts, and an unseen guess earns nothing."""

    @classmethod
    def tasks(cls, config: LampConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        """The tasks differ in the lamp's colour, which the prompt does not tell."""
        for index in range(config.size):
            yield Task(Public(id=f"{split}/{index}", prompt=PROMPT), Secret(answer=COLOURS[index % len(COLOURS)]))

    @classmethod
    def limits(cls, config: LampConfig) -> Limits:
        """Two turns of one token each, for a look and a key press: no key can be pressed in the same turn as the
        look.
        """
        return Limits(max_turns=2, max_response_tokens=1)

    async def setup(self) -> None:
        """Called on a new instance for each episode: `self` is the episode."""
        self.colour = str(self.task.secret.answer)
        self.has_looked = False
        self.pressed: str | None = None

    @tool
    async def look(self) -> str:
        """Look at the lamp; says its colour."""
        if self.pressed is None:
            self.has_looked = True
        return self.colour

    @tool
    async def press(self, key: str) -> str:
        """Press a key.

        Args:
            key: Its colour: red, green or blue.
        """
        if key not in COLOURS:
            raise ToolError(f"there is no {key} key")
        if self.pressed is None:
            self.pressed = key
        return "pressed"

    def reference(self) -> Sequence[Message]:
        """The reference solution, played by the oracle."""
        look = ToolRequest(id="look", name="look", arguments="{}")
        press = ToolRequest(id="press", name="press", arguments=f'{{"key": "{self.colour}"}}')
        return [Message(role="assistant", tool_requests=(request,)) for request in (look, press)]

    async def verify(self, submission: Submission) -> Score:
        """Most of the reward is for the right key after a look, and a little for the look, so that learning can begin.

        A lucky guess without a look earns nothing; else a policy could settle on one key before it learns to look.
        """
        is_right = self.has_looked and self.pressed == self.colour
        return Score(reward=0.2 * self.has_looked + 0.8 * is_right, passed=is_right)
