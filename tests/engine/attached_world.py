"""An environment whose tasks show a picture, a sound and a paper; it is played here, and served from this file."""

from collections.abc import Iterable

from rollouthub import Environment, EnvironmentConfig, Message, Public, Score, Secret, Submission, Task, Text
from rollouthub.messages import assistant, picture
from tests.engine.picture_world import png

SOUND, PAPER = b"RIFF\x04\0\0\0WAVEdata", b"%PDF-1.7\n"
ANSWER = b"%PDF-1.7 the answer"
"""What the secret half shows."""


class AttachedConfig(EnvironmentConfig):
    """What is attached."""

    kind: str | None = None
    """What the paper is called instead of what it is."""


class Attached(Environment[AttachedConfig]):
    """Two tasks with a picture of their own, and a sound and a paper that both have."""

    @classmethod
    def tasks(cls, config: AttachedConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        """Each shows its picture twice."""
        for index, name in enumerate(("one", "two")):
            shown = [picture(png(index)), picture(SOUND), picture(PAPER, config.kind), picture(png(index))]
            prompt = Message(role="user", content=(Text(text="Look and listen."), *shown))
            hidden = Message(role="assistant", content=(picture(ANSWER),))
            yield Task(Public(id=name, prompt=(prompt,)), Secret(reference=(hidden, assistant("x"))))

    async def verify(self, submission: Submission) -> Score:
        """Nothing to score."""
        return Score(reward=1.0)
