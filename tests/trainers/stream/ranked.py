"""A world whose samples are scored together, by their numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task


class RankedConfig(EnvironmentConfig):
    """What comes of its tasks."""

    size: int = 3
    broken: int = 0
    """So many set-ups of each task break."""


seen: Counter[str] = Counter()
"""Of one run: the file is loaded for each."""


class Ranked(Environment[RankedConfig]):
    """Say anything."""

    @classmethod
    def tasks(cls, config: RankedConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        for index in range(config.size):
            yield Task(Public(id=str(index), prompt=f"task {index}"), Secret())

    async def setup(self) -> None:
        seen[self.task.public.id] += 1
        if seen[self.task.public.id] <= self.config.broken:
            raise RuntimeError("it does not stand")

    async def verify_group(self, submissions: Sequence[Submission]) -> Sequence[Score]:
        return [Score(reward=float(place), feedback=str(len(submissions))) for place in range(len(submissions))]
