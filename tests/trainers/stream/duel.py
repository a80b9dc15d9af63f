"""A game for two that one of them wins: the team's reward never differs, those of the seats do."""

from collections import Counter
from collections.abc import Iterable

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task

ended: Counter[str] = Counter()
"""Of one run: the file is loaded for each."""


class Duel(Environment[EnvironmentConfig]):
    """Say anything, and win every other time."""

    seats = ("left", "right")

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        """Two."""
        for name in ("first", "second"):
            yield Task(Public(id=name, prompt="Fight."), Secret())

    def verify(self, submission: Submission) -> Score:
        """Zero-sum."""
        ended[self.task.public.id] += 1
        won = float(ended[self.task.public.id] % 2)
        return Score(reward=0.5, seat_rewards={"left": won, "right": 1.0 - won})
