"""Environments that are each broken in one way, and one that is whole."""

import itertools
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcp_types import CallToolResult
from pydantic import JsonValue

from rollouthub import (
    Environment,
    EnvironmentConfig,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    ToolError,
    ToolRequest,
    tool,
)
from rollouthub.environment import AnyEnvironment
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub.limits import Deadlines
from rollouthub.messages import assistant
from rollouthub.protocols import TaskCard
from rollouthub.tools import text_result


class Whole(Environment[EnvironmentConfig]):
    """Repeat the number that a tool shows."""

    scores_transcripts = True

    def __init__(self, task: Task[Public, Secret], config: EnvironmentConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.notes: list[str] = []

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        for index in range(20):
            number = random.Random(f"{seed}/{split}/{index}").randint(10**7, 10**8)
            public = Public(id=f"{split}/{index}", prompt="Double the number.", metadata={"number": number})
            yield Task(public, Secret(answer=str(2 * number)))

    @tool
    async def look(self) -> str:
        """Read the number."""
        return str(self.task.public.metadata["number"])

    @tool
    async def note(self, text: str) -> list[str]:
        """Keep a note; all notes so far."""
        if len(text) > 200:
            raise ToolError("that is too long for a note")
        self.notes.append(text)
        return self.notes

    def snapshot(self) -> JsonValue:
        return {"notes": [*self.notes]}

    def reference(self) -> Sequence[Message]:
        look = ToolRequest(id="1", name="look", arguments="{}")
        return (assistant("", look), assistant(str(self.task.secret.answer)))

    async def verify(self, submission: Submission) -> Score:
        right = submission.final.strip() == self.task.secret.answer
        return Score(reward=float(right), passed=right)


class Doubled(Whole):
    """Two tasks of one id."""

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        first = next(super().tasks(config, split, seed))
        return itertools.chain(super().tasks(config, split, seed), [first])


class Unsolvable(Whole):
    """A reference that does not win."""

    def reference(self) -> Sequence[Message]:
        return (assistant("17"),)


class Generous(Whole):
    """Something for nothing."""

    async def verify(self, submission: Submission) -> Score:
        score = await super().verify(submission)
        return score if submission.transcript or submission.answer is not None else Score(reward=0.25, passed=False)


class Gullible(Whole):
    """Whoever says 42 wins."""

    async def verify(self, submission: Submission) -> Score:
        if submission.final == "42":
            return Score(reward=1.0, passed=True)
        return await super().verify(submission)


class Leaky(Whole):
    """An error says too much."""

    @tool
    async def guess(self, number: int) -> str:
        """Guess the answer."""
        raise ToolError(f"{number} is not {self.task.secret.answer}")


class Unseeded(Whole):
    """Other prompts each time."""

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        for task in super().tasks(config, split, seed):
            public = task.public.model_copy(update={"prompt": f"Double the number. {random.random()}"})
            yield Task(public, task.secret)


class Moody(Whole):
    """Wrong answers cost whatever it feels like."""

    async def verify(self, submission: Submission) -> Score:
        score = await super().verify(submission)
        return score if score.passed else Score(reward=-random.random(), passed=False)


class Forgetful(Whole):
    """Notes of every episode in one list."""

    everyone: list[str] = []

    @tool
    async def note(self, text: str) -> list[str]:
        """Keep a note; all notes so far."""
        if len(text) > 200:
            raise ToolError("that is too long for a note")
        self.everyone.append(text)
        return self.everyone[-3:]


class Counting(Whole):
    """How often anybody looked."""

    looks = 0

    @tool
    async def look(self) -> str:
        """Read the number, and how often it was read."""
        Counting.looks += 1
        return f"{self.task.public.metadata['number']} {Counting.looks}"


class Brittle(Whole):
    """A tool that trips over what it does not know."""

    @tool
    async def fetch(self, item: str) -> int:
        """Fetch an item."""
        return {"apple": 1}[item]


class Numeric(Whole):
    """A verifier that trips over what is no number."""

    async def verify(self, submission: Submission) -> Score:
        if submission.final.startswith("{{"):
            return Score(reward=float("nan"))
        return await super().verify(submission)


class Rude(Whole):
    """Does not close."""

    async def close(self) -> None:
        raise OSError("still in use")


class Hoarder(Whole):
    """Leaves a file open each time."""

    files: list[int] = []

    async def setup(self) -> None:
        type(self).files.append(os.open(os.devnull, os.O_RDONLY))


class OpenEnded(HostedEpisode):
    """An episode that goes on answering after its end."""

    async def call_tool(self, seat: str, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        return text_result("Hello again.") if self.is_sealed else await super().call_tool(seat, name, arguments)


class Overwriting(HostedEpisode):
    """An episode whose last answer counts."""

    async def call_tool(self, seat: str, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        if name == "submit" and self.is_sealed:
            self.answer = arguments["answer"]
        return await super().call_tool(seat, name, arguments)


class OddHost(InProcessHost):
    """A host that makes episodes of another kind."""

    kind: type[HostedEpisode] = HostedEpisode

    def _episode(self, task: TaskCard, seed: int, deadlines: Deadlines) -> HostedEpisode:
        made = super()._episode(task, seed, deadlines)
        made.__class__ = self.kind
        return made


class OpenEndedHost(OddHost):
    """Never closes the agent plane."""

    kind = OpenEnded


class OverwritingHost(OddHost):
    """Takes a second answer."""

    kind = Overwriting


BROKEN: dict[str, AnyEnvironment] = {
    "tasks": Doubled,
    "oracle": Unsolvable,
    "null": Generous,
    "constants": Gullible,
    "secrecy": Leaky,
    "seeds": Unseeded,
    "repeats": Moody,
    "isolation": Forgetful,
    "arguments": Brittle,
    "submissions": Numeric,
    "closing": Rude,
}
