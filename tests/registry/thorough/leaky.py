"""Environments and hosts that each leak in one way."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import anyio
from mcp_types import CallToolResult

from rollouthub import Message, Public, Score, Secret, Submission, Task, ToolError, tool
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub.limits import Deadlines
from rollouthub.messages import user
from rollouthub.protocols import TaskCard
from rollouthub.tools import shown_result, text_result
from tests.mcp_servers.private_table import PrivateTable
from tests.registry.worlds import Whole

PASSWORD = "swordfish-and-chips"
_tokens = itertools.count(1)


class Spoken(Whole):
    """L1: the answer is in the instructions."""

    def messages(self, seat: str) -> Sequence[Message]:
        return [user(f"Double the number. Do not say {self.task.secret.answer}!")]


class Described(Whole):
    """L1: every task has one answer, and a tool's description tells it."""

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        for index in range(2):
            yield Task(Public(id=str(index), prompt="Find the password."), Secret(answer=PASSWORD))

    @tool
    async def unlock(self, password: str) -> str:
        """Open the drawer. The password is swordfish-and-chips."""
        return "It stays locked."


class Sourced(Whole):
    """L1: the verifier's source is in a tool's result."""

    @tool
    async def rules(self) -> str:
        """Read the rules."""
        return "right = submission.final.strip() == self.task.secret.answer"


class Scolding(Whole):
    """L4: an error says too much."""

    @tool
    async def guess(self, number: int) -> str:
        """Guess the answer."""
        raise ToolError(f"{number} is not {self.task.secret.answer}")


class Disguised(Whole):
    """L4: a result holds the answer backwards."""

    @tool
    async def peek(self) -> str:
        """Look into the mirror."""
        return str(self.task.secret.answer)[::-1]


class Listed(Whole):
    """L6: the answer is in the listing."""

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        for task in super().tasks(config, split, seed):
            metadata = {**task.public.metadata, "check": task.secret.answer}
            yield Task(task.public.model_copy(update={"metadata": metadata}), task.secret)


class Shared(Whole):
    """L9: notes of every episode in one list."""

    everyone: list[str] = []

    @tool
    async def note(self, text: str) -> list[str]:
        """Keep a note; all notes so far."""
        if len(text) > 200:
            raise ToolError("that is too long for a note")
        self.everyone.append(text)
        return self.everyone[-50:]


class Chatty(Whole):
    """L11: a tool tells what the verifier would say."""

    @tool
    async def check(self, answer: str) -> str:
        """Check an answer."""
        return self._judged(answer)

    def _judged(self, answer: str) -> str:
        return f"the grader read {answer[:5]!r} and expected another number"

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=0.0, passed=False, feedback=self._judged(submission.final))


class Evaluating(Whole):
    """L12: a tool runs what it is told."""

    @tool
    async def calculate(self, formula: str) -> str:
        """Calculate."""
        try:
            return str(eval(formula))
        except Exception:
            raise ToolError("that is no formula") from None


class Furnished(Whole):
    """L7: a shell whose environment holds the answer."""

    @tool
    async def bash(self, command: str) -> str:
        """Run a command."""
        if command.startswith("echo $((40+2))"):
            return "42-ran\n"
        return f"PATH=/bin\nEXPECTED={self.task.secret.answer}\n" if command.startswith("env") else ""


class Writable(Whole):
    """L8: whoever writes a reward has it."""

    reward = 0.0

    @tool
    async def bash(self, command: str) -> str:
        """Run a command."""
        if "reward.txt" in command:
            self.reward = 1.0
        if "echo look''ed" in command:
            return "looked\n"
        return "42-ran\n" if command.startswith("echo $((40+2))") else ""

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=self.reward)


class Haunted(Whole):
    """L8: processes of its shell are left alone."""

    @tool
    async def bash(self, command: str) -> str:
        """Run a command."""
        async with await anyio.open_process(["sh", "-c", command], stdin=None) as process:
            assert process.stdout is not None
            return b"".join([piece async for piece in process.stdout]).decode()


class Brittle(Whole):
    """A tool trips over what it does not know."""

    @tool
    async def fetch(self, item: str) -> int:
        """Fetch an item."""
        return {"apple": 1}[item]


class OddHost(InProcessHost):
    """A host that makes episodes of another kind."""

    kind: type[HostedEpisode] = HostedEpisode

    def _episode(self, task: TaskCard, seed: int, deadlines: Deadlines) -> HostedEpisode:
        made = super()._episode(task, seed, deadlines)
        made.__class__ = self.kind
        return made


class _Backdoor(HostedEpisode):
    async def call_tool(self, seat: str, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        return text_result("0.5") if name == "evaluate" else await super().call_tool(seat, name, arguments)


class BackdoorHost(OddHost):
    """L2: a tool that is not listed scores."""

    kind = _Backdoor


class _Telling(HostedEpisode):
    async def call_tool(self, seat: str, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        result = await super().call_tool(seat, name, arguments)
        if name == "submit" and not result.is_error:
            is_right = arguments["answer"] == self.environment.task.secret.answer
            return text_result("Correct!" if is_right else "Submitted.")
        return result


class TellingHost(OddHost):
    """L4: `submit` says what it thinks of the answer."""

    kind = _Telling


class _Counted(HostedEpisode):
    async def setup(self, state: Any = None) -> None:
        await super().setup(state)
        for seat in self.seats.values():
            seat.token = f"seat-{next(_tokens):028d}"


class CountedHost(OddHost):
    """L10: tokens are counted."""

    kind = _Counted


class _OpenTools(HostedEpisode):
    async def call_tool(self, seat: str, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        owner = name.removesuffix("_card") if name.endswith("_card") else seat
        return await super().call_tool(owner, name, arguments)


class OpenToolsHost(OddHost):
    """L2: a seat may call what only another is offered."""

    kind = _OpenTools


class _Gossiping(HostedEpisode):
    async def call_tool(self, seat: str, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        if name == "get_task":
            return shown_result([message for each in self.seats.values() for message in each.messages])
        return await super().call_tool(seat, name, arguments)


class GossipingHost(OddHost):
    """L1: the task is told to each seat as all seats are told it."""

    kind = _Gossiping


class TokenTelling(PrivateTable):
    """L1: a tool tells every seat's token."""

    @tool
    async def peers(self) -> list[str]:
        """Who else is here."""
        return [token for token in _seat_tokens if token]


_seat_tokens: list[str] = []


class _NotingTokens(HostedEpisode):
    async def setup(self, state: Any = None) -> None:
        await super().setup(state)
        _seat_tokens[:] = [seat.token for seat in self.seats.values()]


class NotingTokensHost(OddHost):
    """Keeps the tokens where `TokenTelling` finds them."""

    kind = _NotingTokens
