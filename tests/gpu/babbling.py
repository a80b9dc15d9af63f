"""A world in which any text is worth something: the share of vowels among its letters, so that groups differ."""

from collections.abc import Iterable

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task


class Babbling(Environment[EnvironmentConfig]):
    """Say something with many vowels."""

    submits = False

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        for index in range(64):
            yield Task(Public(id=f"{split}/{index}", prompt=f"Say {index + 1} words with many vowels."), Secret())

    async def verify(self, submission: Submission) -> Score:
        letters = [letter for letter in submission.final.lower() if letter.isascii() and letter.isalpha()]
        share = sum(letter in "aeiou" for letter in letters) / max(len(letters), 1)
        return Score(reward=share, passed=share > 0.5)
