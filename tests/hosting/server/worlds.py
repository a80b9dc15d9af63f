"""Worlds to serve: many tasks, odd ids, and references."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rollouthub import BadRow, Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task
from rollouthub.errors import DataError
from rollouthub.messages import assistant

ODD_IDS = ("plain", "a/b", "a/reference", "ä ?&#%2F", "reference", " ")


class ShelfConfig(EnvironmentConfig):
    """What is on the shelf."""

    size: int = 0
    """Numbered tasks after the odd ones."""
    bad: bool = False
    """Whether a row that makes no task stands among them."""
    readings: list[str] = []
    """Splits as they were read, each time from the start."""


class Shelf(Environment[ShelfConfig]):
    """Tasks by the thousand, scored from their text alone."""

    scores_transcripts = True

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        return ("test", "odd")

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret] | BadRow]:
        config.readings.append(f"{split}:{seed}")
        return cls._odd() if split == "odd" else cls._numbered(config, seed)

    @classmethod
    def _odd(cls) -> Iterator[Task[Public, Secret]]:
        for name in ODD_IDS:
            yield Task(Public(id=name, prompt=name), Secret(answer=name, reference=(assistant(name),)))

    @classmethod
    def _numbered(cls, config: ShelfConfig, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        for number in range(config.size):
            if config.bad and number == 1:
                yield BadRow(DataError("no answer", "rows.jsonl", 2))
            yield Task(Public(id=str(number), prompt=f"{seed}"), Secret(answer=str(number)))

    async def verify(self, submission: Submission) -> Score:
        if submission.final == "raise":
            raise LookupError("no such word")
        return Score(reward=float(submission.final == self.task.secret.answer))


class Race(Environment[ShelfConfig]):
    """Numbered tasks, and the longest answer to each wins."""

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        for number in range(config.size):
            yield Task(Public(id=str(number), prompt="Go."), Secret())

    def verify_group(self, submissions: Sequence[Submission]) -> Sequence[Score]:
        longest = max(len(each.final) for each in submissions)
        samples = ", ".join(str(member.sample) for member in self.group.members)
        lost = ", ".join(str(member.sample) for member in self.group.lost)
        said = f"samples {samples}; lost {lost}"
        return [Score(reward=float(len(each.final) == longest), feedback=said) for each in submissions]
