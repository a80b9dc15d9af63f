"""A world whose task shows a picture, and whose user shows two more, whatever is answered."""

from collections.abc import Iterable, Sequence

from rollouthub import Environment, EnvironmentConfig, Message, Public, Score, Secret, Submission, Task, Text, picture
from tests.trainers.gallery import drawn

WIDTHS = (84, 112, 56)
"""Of the pictures, in their order."""


def shown(width: int) -> Message:
    """A picture between words."""
    return Message(role="user", content=(Text(text="See:"), picture(drawn(width)), Text(text="What?")))


class Showing(Environment[EnvironmentConfig]):
    """Say what is shown."""

    submits = False
    said = 0

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        for index in range(64):
            yield Task(Public(id=f"{split}/{index}", prompt=(shown(WIDTHS[0]),)), Secret())

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        self.said += 1
        return [shown(WIDTHS[self.said])] if self.said < len(WIDTHS) else None

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=1.0, passed=True)
