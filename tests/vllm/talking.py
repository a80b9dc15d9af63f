"""A world whose user asks four times, whatever is answered: conversations of several turns from any model."""

from collections.abc import Iterable, Sequence

from rollouthub import Environment, EnvironmentConfig, Message, Public, Score, Secret, Submission, Task, tool
from rollouthub.messages import user

TURNS = 4


class Talking(Environment[EnvironmentConfig]):
    """Answer a question after the other, with a tool at hand."""

    submits = False
    said = 1

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        for index in range(64):
            yield Task(Public(id=f"{split}/{index}", prompt=f"Add {index} and {(37 * index) % 100}."), Secret())

    @tool
    async def add(self, a: int, b: int) -> str:
        """Add two integers."""
        return str(a + b)

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        self.said += 1
        return [user(f"Now add {self.said} to it.")] if self.said <= TURNS else None

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=1.0, passed=True)
