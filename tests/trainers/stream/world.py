"""A world whose rewards and faults are to order."""

from collections import Counter
from collections.abc import Iterable

import anyio

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task


class WorldConfig(EnvironmentConfig):
    """What comes of its tasks."""

    size: int = 6
    constant: int = 0
    """Every so many-th task gives all samples one reward; 1 is all of them, 0 none. Others give 0 and 1 in turn."""
    solved: int = 0
    """So many first tasks give all samples 1."""
    suspect: str | None = None
    """Why no score is to be trusted; None where they are."""
    broken: int = 0
    """Every so many-th task cannot be set up."""
    flaky: int = 0
    """So many set-ups of each task break before one holds."""
    stuck: int = 0
    """Set-ups of each task, after so many, that never come to an end; 0 is none."""


seen: Counter[tuple[str, str]] = Counter()
"""Of one run: the file is loaded for each."""


class World(Environment[WorldConfig]):
    """Say anything."""

    @classmethod
    def tasks(cls, config: WorldConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        for index in range(config.size):
            yield Task(Public(id=str(index), prompt=f"task {index}"), Secret())

    async def setup(self) -> None:
        number, config = int(self.task.public.id), self.config
        if config.broken and number % config.broken == 0:
            raise RuntimeError("it does not stand")
        begun = self._count("setup")
        if begun <= config.flaky:
            raise RuntimeError("it stands next time")
        if config.stuck and begun > config.stuck:
            await anyio.sleep_forever()

    async def verify(self, submission: Submission) -> Score:
        number, config = int(self.task.public.id), self.config
        if number < config.solved:
            return Score(reward=1.0)
        if config.constant and number % config.constant == 0:
            return Score(reward=0.5, suspect=config.suspect)
        return Score(reward=float(self._count("verify") % 2), suspect=config.suspect)

    def _count(self, what: str) -> int:
        key = (what, self.task.public.id)
        seen[key] += 1
        return seen[key]
