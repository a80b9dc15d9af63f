"""`Bfcl`: an environment of BFCL v4 rows: functions are tools, turns a conversation, and BFCL's own checkers score."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

from anyio import to_thread
from mcp_types import Tool
from pydantic import Field
from pydantic_core import to_json

from rollouthub import BadRow, Environment, EnvironmentConfig, Limits, Message, Public, Score, Submission, Task
from rollouthub.errors import TaskError, ToolError
from rollouthub.messages import ToolRequest, assistant, system, user
from rollouthub.plugins.importers import silent
from rollouthub_servers.bfcl.bfcl_source import code_of, program_of
from rollouthub_servers.bfcl.categories import MEMORY, MULTI_TURN, is_stateful
from rollouthub_servers.bfcl.row import BfclRow, BfclSecret, Call, read_categories, read_rows
from rollouthub_servers.bfcl.shown_tools import shown_names, shown_tools
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign.session import ForeignRefusal, ForeignSession

_TAKEN = "The call is noted."
_MOST_CALLS = 100
"""Most calls in one turn before the episode ends; BFCL ends a turn after 20 messages with calls."""
_OPEN_SECONDS = 30.0
_CHECK_CALLS = 8
"""A verdict may take this many times `call_seconds`, since it repeats all calls of the episode and of the answer."""


class BfclConfig(EnvironmentConfig):
    """The imported rows, and how rows with memory are played."""

    data: str
    """The folder that the import wrote."""
    memory: Literal["conversations", "empty"] = "conversations"
    """What precedes a question about memory: `conversations`, the user's earlier conversations, in which the agent
    should fill the memory; or `empty`, nothing, so that the memory is empty.
    """
    call_seconds: float = Field(default=10.0, gt=0)
    """Most seconds for a call of a simulated API; a call that takes longer fails the episode."""


class Bfcl(Environment[BfclConfig, Public, BfclSecret]):
    """Call the right functions with the right arguments, once or over many turns."""

    submits = False
    checks_arguments = False
    """Off, because judging wrong arguments is the task of BFCL's checkers."""
    runtimes: ClassVar[dict[str, ForeignRuntime]] = {}
    """Running drivers by the folder of the imported rows."""

    def __init__(self, task: Task[Public, BfclSecret], config: EnvironmentConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.row: BfclRow = task.secret.row
        held = [tool for tools in self.row.held.values() for tool in tools]
        self._names = shown_names(tool.name for tool in (*self.row.tools, *held))
        self._earlier = self.row.conversations if self.config.memory == "conversations" else ()
        self._round = 0
        """Number of the user's current turn, counting those of earlier conversations."""
        self._calls: list[list[Call]] = [[] for _ in (*self._earlier, *self.row.turns)]
        self._last_words = ""
        self._system: str | None = None
        self._session: ForeignSession | None = None

    @classmethod
    def splits(cls, config: Any) -> tuple[str, ...]:
        """`test` with all rows, and one split per category."""
        return ("test", *read_categories(Path(config.data)))

    @classmethod
    def tasks(cls, config: BfclConfig, split: str, seed: int) -> Iterator[Task[Public, BfclSecret] | BadRow]:
        """The imported rows of a split."""
        return read_rows(Path(config.data), split)

    @classmethod
    def limits(cls, config: BfclConfig) -> Limits:
        """Turn limit that suffices for the longest conversations, with calls in each turn."""
        return Limits(max_turns=400)

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """All modules of this package."""
        return sorted(Path(__file__).parent.rglob("*.py"))

    @classmethod
    def has_reference(cls, task: Task[Public, Any]) -> bool:
        """Whether the row's own answer passes BFCL's checker."""
        return task.secret.row.reference_fails is None

    @classmethod
    async def prepare(cls, config: BfclConfig) -> None:
        """Find BFCL's code and virtual environment, and create them if missing."""
        if config.data in cls.runtimes:
            return
        data = Path(config.data)
        lock = ForeignLock.read(data / LOCK_FILE)
        code = await to_thread.run_sync(code_of, data, lock)
        program = await to_thread.run_sync(lambda: program_of(code, lock, silent, call_seconds=config.call_seconds))
        cls.runtimes[config.data] = ForeignRuntime(program)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Run the row's simulated APIs in a session of this episode alone; rows without state need none."""
        if not is_stateful(self.row.category):
            yield
            return
        async with self.runtimes[self.config.data].session() as session:
            self._system = await session.ask("open", seconds=_OPEN_SECONDS, row=self.row.entry)
            self._session = session
            yield

    def task_tools(self) -> Sequence[Tool]:
        """The row's functions, plus those that become available by the current turn."""
        turn = self._round - len(self._earlier)
        held = [tool for start, tools in self.row.held.items() if start <= turn for tool in tools]
        return shown_tools(self._names, (*self.row.tools, *held))

    def messages(self, seat: str) -> Sequence[Message]:
        """The first turn; for rows with memory, BFCL's instruction on the memory comes first."""
        return self._turn(0)

    def _turn(self, number: int) -> list[Message]:
        """The messages of one turn, counted over the whole conversation."""
        rounds = (*self._earlier, *self.row.turns)
        said = [message.as_message() for message in rounds[number]]
        if number and any(message.role == "system" for message in said):  # a conversation has one, at its start
            return [user(message.text) if message.role == "system" else message for message in said]
        if number or self._system is None:
            return said
        own = [message.text for message in said if message.role == "system"]
        return [system("\n\n".join([self._system, *own])), *(each for each in said if each.role != "system")]

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The user's next turn; None after the last one."""
        self._last_words = next((each.text for each in reversed(messages) if each.role == "assistant"), "")
        if self._round + 1 >= len(self._calls):
            return None
        self._round += 1
        return self._turn(self._round)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        """Record a call and, for simulated APIs, return their result."""
        own, calls = self._names[name], self._calls[self._round]
        session = self._session
        if session is None:
            calls.append({own: arguments})
            return self._counted(_TAKEN)
        try:
            what, seconds = f"the call of {own!r}", 2 * self.config.call_seconds
            answer = await session.act("call", seconds=seconds, what=what, name=own, given=arguments)
        except ForeignRefusal as refusal:
            raise ToolError(str(refusal)) from refusal
        calls.append({own: arguments})
        return self._counted(answer)

    def _counted(self, answer: str) -> str:
        if len(self._calls[self._round]) >= _MOST_CALLS:
            self.end_episode()
        return answer

    def null_reward(self) -> float:
        """1 for rows in which no function fits, since no call is then right; else 0."""
        return float("irrelevance" in self.row.category)

    def reference(self) -> Sequence[Message]:
        """The row's own answer, turn by turn; empty if it fails BFCL's checker."""
        if self.row.reference_fails is not None:
            return ()
        shown = {own: name for name, own in self._names.items()}
        script = [assistant("I will remember that.") for _ in self._earlier]
        for turn in self.row.reference:
            if isinstance(turn, str):
                script.append(assistant(turn))
                continue
            requests = [_request(shown, index, call) for index, call in enumerate(turn)]
            if is_stateful(self.row.category):
                script += [assistant("", request) for request in requests]
            else:
                script.append(assistant("", *requests))
            script.append(assistant("Done."))
        return script

    async def verify(self, submission: Submission) -> Score:
        """BFCL's own verdict, from a new session that has no state of the episode."""
        async with self.runtimes[self.config.data].session() as session:
            try:
                verdict: dict[str, Any] = await session.ask(
                    "check",
                    seconds=_CHECK_CALLS * self.config.call_seconds,
                    row=self.row.entry,
                    result=self._result(submission),
                )
            except TaskError as error:
                blamed = await session.blame(error, "playing its calls again")
                if blamed is error:
                    raise
                verdict = {"valid": False, "why": str(blamed), "error_type": "overrun"}
        passed = verdict["valid"] is True
        return Score(
            reward=float(passed),
            passed=passed,
            feedback=verdict["why"],
            metadata={"category": self.row.category, "error_type": verdict["error_type"]},
        )

    def _result(self, submission: Submission) -> Any:
        """The episode's result in the form of BFCL's result files."""
        category, scored = self.row.category, self._calls[len(self._earlier) :]
        if category in MULTI_TURN:
            reached = self._round + 1 - len(self._earlier)
            return [[[call] for call in turn] for turn in scored[:reached]]
        if category in MEMORY:
            if self._round + 1 < len(self._calls):
                return [[]]  # the question was not reached
            return [[*([call] for turn in scored for call in turn), self._last_words or submission.final]]
        calls = [*scored[0], *self._strays(submission)]
        return calls or self._last_words or submission.final

    def _strays(self, submission: Submission) -> list[Call]:
        """Calls of unknown functions: the hub answers these with an error, but BFCL counts them."""
        said = [request for message in submission.transcript for request in message.tool_requests]
        return [
            {request.name: {}} for request in said if request.name not in self._names and request.name != "get_task"
        ]


def _request(shown: dict[str, str], index: int, call: Call) -> ToolRequest:
    ((name, given),) = call.items()
    return ToolRequest(id=f"call_{index}", name=shown[name], arguments=to_json(given).decode())
