"""A world of two seats that play at once: one gives a thing, the other takes it."""

from collections.abc import Iterable, Sequence

import anyio

from rollouthub import Environment, EnvironmentConfig, Message, Public, Score, Secret, Submission, Task, tool


class Handover(Environment[EnvironmentConfig]):
    """One seat gives, the other takes."""

    seats = ("giver", "taker")
    submits = False

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        yield Task(Public(id="only", prompt="hand it over"), Secret())

    async def setup(self) -> None:
        self.given = anyio.Event()
        self.thing, self.taken = "", ""

    def messages(self, seat: str) -> Sequence[Message]:
        return [Message(role="user", content=f"you are the {seat}")]

    @tool(seats=("giver",))
    async def give(self, thing: str) -> str:
        """Give something."""
        self.thing = thing
        self.given.set()
        return "given"

    @tool(seats=("taker",))
    async def take(self) -> str:
        """Wait for it, and take it."""
        await self.given.wait()
        self.taken = self.thing
        return self.taken

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=float(self.taken == "apple"), passed=self.taken == "apple")
