"""A whole environment in one file: roll dice until you dare to stop.

hub run examples/dice.py --limit 20                     # the reference solution plays: 1.000 if the rules hold
hub run examples/dice.py -m hosted_vllm/NAME --repeats 8
"""

import random
from collections.abc import Iterable, Sequence

from envhub import (
    Environment,
    EnvironmentConfig,
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


class DiceConfig(EnvironmentConfig):
    """What `--set key=value` sets."""

    size: int = 100
    """How many tasks there are."""
    target: int = 20
    """Stop at this sum or above it, but below 10 more."""


class Dice(Environment[DiceConfig]):
    """Roll a die until the sum reaches the target, then say the sum."""

    @classmethod
    def tasks(cls, config: DiceConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        """The tasks differ in their id alone; the dice come from the episode's seed."""
        for index in range(config.size):
            prompt = f"Roll the die until the sum is at least {config.target}. Then submit the sum."
            yield Task(Public(id=f"{split}/{index}", prompt=prompt), Secret())

    async def setup(self) -> None:
        """A fresh instance per episode: `self` is the episode."""
        self.dice = random.Random(self.seed)
        self.total = 0

    @tool
    async def roll(self, count: int = 1) -> str:
        """Roll the die.

        Args:
            count: How many times, 1 to 3.
        """
        if not 1 <= count <= 3:
            raise ToolError("count must be 1, 2 or 3")
        rolls = [self.dice.randint(1, 6) for _ in range(count)]
        self.total += sum(rolls)
        return f"rolled {rolls}, the sum is {self.total}"

    def reference(self) -> Sequence[Message]:
        """What the oracle plays: the same dice, rolled until the target is reached."""
        dice, total, script = random.Random(self.seed), 0, list[Message]()
        while total < self.config.target:
            total += dice.randint(1, 6)
            request = ToolRequest(id=f"roll-{len(script)}", name="roll", arguments="{}")
            script.append(Message(role="assistant", tool_requests=(request,)))
        return [*script, Message(role="assistant", content=str(total))]

    async def verify(self, submission: Submission) -> Score:
        """Right if the sum was reached, not overshot, and said."""
        reached = self.config.target <= self.total < self.config.target + 10
        said = submission.final.strip() == str(self.total)
        return Score(reward=float(reached and said), passed=reached and said, metrics={"sum": self.total})
