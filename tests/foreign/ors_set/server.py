"""Environments on ORS's own classes: a question, a game of several calls, a toolset, and what is said at the end."""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import random
import sys

from ors import Environment, Server, Split, TextBlock, ToolOutput, Toolset, tool
from pydantic import BaseModel


class Said(BaseModel):
    """An answer in words."""

    answer: str


class Number(BaseModel):
    """A number."""

    number: int


def told(text: str, reward: float, *, finished: bool = False, **known: object) -> ToolOutput:
    """What a tool answers; `known` is for the client, and not for its agent."""
    return ToolOutput(blocks=[TextBlock(text=text)], reward=reward, finished=finished, metadata=dict(known))


class Sums(Environment):
    """One answer, and hints that cost."""

    @classmethod
    def list_splits(cls) -> "list[Split]":
        """Two of them."""
        return [Split(name="test", type="test"), Split(name="train", type="train")]

    @classmethod
    def list_tasks(cls, split: str) -> "list[dict[str, str]]":
        """Sums."""
        first = 0 if split == "test" else 100
        return [{"question": f"What is {n} + 2?", "answer": str(n + 2)} for n in range(first, first + 12)]

    def get_prompt(self) -> "list[TextBlock]":
        """The question."""
        return [TextBlock(text=self.task_spec["question"])]

    @tool
    def hint(self) -> ToolOutput:
        """A long answer, in many chunks."""
        return told("?" * 9000, -0.25, answer=self.task_spec["answer"])

    @tool
    def say(self, said: Said) -> ToolOutput:
        """Answer."""
        right = said.answer == self.task_spec["answer"]
        return told("heard", float(right), finished=True, right=right)


class Guess(Environment):
    """A number is guessed in at most six calls, each of which costs."""

    @classmethod
    def list_splits(cls) -> "list[Split]":
        """One."""
        return [Split(name="test", type="test")]

    @classmethod
    def list_tasks(cls, split: str) -> "list[dict[str, int]]":
        """Numbers."""
        return [{"answer": random.Random(n).randint(0, 9)} for n in range(12)]

    def setup(self) -> None:
        """Nothing is guessed yet."""
        self.tries = 0

    def get_prompt(self) -> "list[TextBlock]":
        """What to do."""
        return [TextBlock(text="Guess a number from 0 to 9.")]

    @tool
    def guess(self, said: Number) -> ToolOutput:
        """Guess."""
        self.tries += 1
        number = self.task_spec["answer"]
        if said.number == number:
            return told("right", 1.0, finished=True)
        return told("too low" if said.number < number else "too high", -0.1, finished=self.tries == 6, number=number)


class Counters(Toolset):
    """Tools on the state of their environment."""

    @tool
    def add(self, said: Number) -> ToolOutput:
        """Add to the counter."""
        self.env.count += said.number
        return told(f"{self.env.count}", 0.5 if self.env.count == self.env.task_spec["answer"] else 0.0)

    @tool
    def clear(self) -> ToolOutput:
        """Begin again."""
        self.env.count = 0
        return told("0", -0.125)


class Count(Environment):
    """A counter is brought to a number by the tools of a toolset."""

    toolsets = (Counters,)

    @classmethod
    def list_splits(cls) -> "list[Split]":
        """One."""
        return [Split(name="test", type="test")]

    @classmethod
    def list_tasks(cls, split: str) -> "list[dict[str, int]]":
        """Numbers."""
        return [{"answer": n} for n in range(12)]

    def setup(self) -> None:
        """The counter is at nothing."""
        self.count = 0

    def get_prompt(self) -> "list[TextBlock]":
        """What to do."""
        return [TextBlock(text=f"Bring the counter to {self.task_spec['answer']}.")]

    @tool
    def stop(self) -> ToolOutput:
        """Be done."""
        return told("done", float(self.count == self.task_spec["answer"]), finished=True)


if __name__ == "__main__":
    Server([Sums, Guess, Count]).run(port=int(sys.argv[1]) if len(sys.argv) > 1 else 8080)
