"""An environment for tests of TRL's plug points: count to the number that the task names, and say a word."""

from collections.abc import Iterable

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, ToolError, tool
from rollouthub.errors import SandboxError


class Counting(Environment[EnvironmentConfig]):
    """A counter, a verifier that reads what was said, and one task whose verifier breaks."""

    open_episodes = 0

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        """Two tasks that work, and one that has no verdict."""
        for name in ("2", "3", "broken"):
            yield Task(Public(id=name, prompt=f"Count to {name}.", system="Count."), Secret(answer=name))

    async def setup(self) -> None:
        """Begin at nothing."""
        self.count = 0
        Counting.open_episodes += 1

    async def close(self) -> None:
        """Count what is open."""
        Counting.open_episodes -= 1

    @tool
    async def add(self, number: int, note: str | None = None, times: int = 1) -> str:
        """Count on.

        Args:
            number: How far.
            note: Said aloud.
        """
        if number < 0:
            raise ToolError("only forwards")
        self.count += number * times
        return f"{self.count}{'' if note is None else ' ' + note}"

    async def verify(self, submission: Submission) -> Score:
        """Half for the count, half for the word."""
        if self.task.id == "broken":
            raise SandboxError("the sandbox is gone")
        return Score(reward=0.5 * (str(self.count) == self.task.id) + 0.5 * (submission.final == "done"))
