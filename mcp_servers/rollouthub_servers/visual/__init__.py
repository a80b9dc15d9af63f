"""`visual`: questions about generated pictures (charts, grids, clocks, geometry); nothing to download."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Literal

from pydantic import Field

from rollouthub import (
    Environment,
    EnvironmentConfig,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    Text,
    picture,
)
from rollouthub.messages import assistant
from rollouthub_servers.arithmetic import answer
from rollouthub_servers.visual.answers import find_answer
from rollouthub_servers.visual.charts import chart
from rollouthub_servers.visual.clocks import clock
from rollouthub_servers.visual.geometry import geometry
from rollouthub_servers.visual.grids import grid
from rollouthub_servers.visual.picture_question import HARDEST, Form, Generator

Kind = Literal["charts", "grids", "clocks", "geometry"]
KINDS: dict[Kind, Generator] = {"charts": chart, "grids": grid, "clocks": clock, "geometry": geometry}
INSTRUCTION = "Give the answer as the last thing you say."


class VisualConfig(EnvironmentConfig):
    """Number, kinds and difficulty of the pictures."""

    size: int = Field(default=1000, ge=1)
    """Number of tasks in each split; they are generated lazily, and a larger size begins with the same tasks."""
    kinds: tuple[Kind, ...] = Field(default=("charts", "grids", "clocks", "geometry"), min_length=1)
    """Kinds of pictures, used in turn."""
    easiest: int = Field(default=1, ge=1, le=HARDEST)
    """The lowest level."""
    hardest: int = Field(default=HARDEST, ge=1, le=HARDEST)
    """The highest level; each task's level is drawn at random between the two."""


class VisualSecret(Secret):
    """The answer and its form, by which it is found in a response."""

    form: Form
    choices: tuple[str, ...] = ()


class Visual(Environment[VisualConfig, Public, VisualSecret]):
    """One question about one picture."""

    default_agent = "single_turn"
    scores_transcripts = True

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """`test` and `train`, of the same kind, from separate random streams."""
        return ("test", "train")

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """The module of `arithmetic` that finds numbers."""
        return (Path(answer.__file__),)

    @classmethod
    def tasks(cls, config: VisualConfig, split: str, seed: int) -> Iterator[Task[Public, VisualSecret]]:
        """Generate the pictures lazily, each from its own random stream."""
        levels = range(config.easiest, max(config.easiest, config.hardest) + 1)
        for index in range(config.size):
            # A string seed is hashed, so that neighbouring seeds share nothing.
            random = Random(f"{seed}/{split}/{index}")
            kind = config.kinds[index % len(config.kinds)]
            level = random.choice(levels)
            made = KINDS[kind](random, level)
            asked = Text(text=f"{made.question} {INSTRUCTION}")
            prompt = Message(role="user", content=(picture(made.canvas.png()), asked))
            yield Task(
                Public(id=f"{split}/{index}", prompt=(prompt,), source=kind, metadata={"level": level}),
                VisualSecret(answer=made.answer, form=made.form, choices=made.choices),
            )

    def reference(self) -> Sequence[Message]:
        """A message with the answer."""
        return (assistant(f"The answer is {self.task.secret.answer}."),)

    async def verify(self, submission: Submission) -> Score:
        """Compare the last number, time or choice in the response exactly with the answer."""
        secret = self.task.secret
        found = find_answer(submission.final, secret.form, secret.choices)
        if found == secret.answer:
            return Score(reward=1.0, passed=True)
        feedback = f"no {secret.form} was given" if found is None else f"expected {secret.answer}, got {found[:100]}"
        return Score(reward=0.0, passed=False, feedback=feedback)
