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
    """What `--set key=value` sets."""

    size: int = 60
    """How many tasks there are."""


class Lamp(Environment[LampConfig]):
    """Only who looks knows the colour; the first key that is pressed counts, and a guess counts for nothing."""

    @classmethod
    def tasks(cls, config: LampConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        """The tasks differ in the lamp's colour, which is nothing that a policy is told."""
        for index in range(config.size):
            yield Task(Public(id=f"{split}/{index}", prompt=PROMPT), Secret(answer=COLOURS[index % len(COLOURS)]))

    @classmethod
    def limits(cls, config: LampConfig) -> Limits:
        """A move to look and one to press, of a token each: nobody presses before the answer to a look is there."""
        return Limits(max_turns=2, max_response_tokens=1)

    async def setup(self) -> None:
        """A fresh instance per episode: `self` is the episode."""
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
        """What the oracle plays."""
        look = ToolRequest(id="look", name="look", arguments="{}")
        press = ToolRequest(id="press", name="press", arguments=f'{{"key": "{self.colour}"}}')
        return [Message(role="assistant", tool_requests=(request,)) for request in (look, press)]

    async def verify(self, submission: Submission) -> Score:
        """Most of the reward is for the right key after a look, and a little for the look, so that there is a way up.

        A lucky guess is not paid: were it, a policy could grow certain of one key before it has learnt to look.
        """
        is_right = self.has_looked and self.pressed == self.colour
        return Score(reward=0.2 * self.has_looked + 0.8 * is_right, passed=is_right)
