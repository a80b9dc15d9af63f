"""A world with one tool, to be called at every turn."""

from collections.abc import Iterable

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, tool


class Adding(Environment[EnvironmentConfig]):
    """Add two numbers with a tool."""

    submits = False

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        for index in range(64):
            a, b = index, (37 * index) % 100
            yield Task(Public(id=f"{split}/{index}", prompt=f"Add {a} and {b}."), Secret(answer=a + b))

    @tool
    async def add(self, a: int, b: int) -> str:
        """Add two integers."""
        return str(a + b)

    async def verify(self, submission: Submission) -> Score:
        is_right = submission.final.strip() == str(self.task.secret.answer)
        return Score(reward=float(is_right), passed=is_right)
