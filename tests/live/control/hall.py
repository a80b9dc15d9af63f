"""A world to watch: tasks with rude names, a tool that answers in escape sequences."""

from collections.abc import Iterable

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, tool

RED = "\x1b[31m"
TITLE = "\x1b]0;owned\x07"
SECRET_WORD = "xyzzy-prompt"
ANSWER = "xyzzy-answer"


class Hall(Environment[EnvironmentConfig]):
    """Look around."""

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        """Many of them."""
        for number in range(100_000):
            yield Task(Public(id=f"{RED}rude\x07/{number}", prompt=SECRET_WORD), Secret(answer=ANSWER))

    async def setup(self) -> None:
        """Nothing seen yet."""
        self.looked = 0

    @tool
    async def look(self) -> str:
        """Look around."""
        self.looked += 1
        return f"{TITLE}{RED}a wall\x1b[0m\x9b2J\u202e and a door\r\n"

    async def verify(self, submission: Submission) -> Score:
        """Half for coming, the rest for looking."""
        return Score(reward=1.0 if self.looked else 0.5)
