"""`Tau2`: tasks of τ²-bench: its tools, its policy, its user in two-sided control, and the verdict of its evaluator."""

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

from anyio import to_thread
from mcp_types import Tool
from pydantic import Field
from pydantic_core import to_json

from rollouthub import (
    BadRow,
    Deadlines,
    Environment,
    EnvironmentConfig,
    Limits,
    Message,
    Public,
    Score,
    Submission,
    Task,
)
from rollouthub.authoring.rewards import Criterion, Judge, product
from rollouthub.errors import TaskError, ToolError
from rollouthub.messages import ToolRequest, assistant, system, user
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock, foreign_home
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign.session import ForeignSession
from rollouthub_servers.tau2.caller import MARKS, Caller, ModelCaller, ScriptedCaller
from rollouthub_servers.tau2.checkout import program_of
from rollouthub_servers.tau2.row import AboutRows, Requestor, Tau2Row, Tau2Secret, read_rows

_GREETING = "Hi! How can I help you today?"
"""The message with which τ²-bench has every agent begin."""
_PLEASE = "Please do your part now, and tell me when it is done."
_GOODBYE = "That is all. Goodbye."
_OPEN_SECONDS = 60.0
_CHECK_CALLS = 8
_JUDGED = """\
A conversation between a customer service agent ("assistant", with its tool calls) and a customer ("user"):
{answer}

Judge whether each of these holds of the agent's conduct:
{criteria}
"""


class Tau2Config(EnvironmentConfig):
    """Settings of τ²-bench: the tasks, the simulated user and the judge."""

    data: str
    """The folder that an import wrote."""
    user: Literal["model", "scripted"] = "model"
    """`model`: the run's `--role user=…` plays the user from τ²-bench's own instructions; `scripted`: a user without a
    model, who says why they call, does their part of the solution when spoken to, and then hangs up."""
    judge: Literal["model", "none"] = "model"
    """What judges assertions in natural language: the run's `--role judge=…`; or nothing, in which case tasks that
    need a judge are refused.
    """
    retrieval: Literal["bm25_grep", "bm25", "grep_only", "full_kb", "golden_retrieval", "no_knowledge"] = "bm25_grep"
    """How the agent of `banking_knowledge` finds documents; only τ²-bench's methods that need no network."""
    most_errors: int = Field(default=10, ge=1)
    """Number of failed tool calls that ends the conversation with reward 0, as in τ²-bench."""
    call_seconds: float = Field(default=10.0, gt=0)
    """Longest time for one tool call; an agent whose call computes for longer has lost the episode."""


class Tau2(Environment[Tau2Config, Public, Tau2Secret]):
    """Serve a customer by the policy: talk, look things up, change them, and have the customer do their part."""

    submits = False
    checks_arguments = False
    """A wrong argument is answered as τ²-bench answers it, and counts as an error."""
    runtimes: ClassVar[dict[tuple[str, str], ForeignRuntime]] = {}
    """By the folder of the rows and the way to find documents."""

    def __init__(self, task: Task[Public, Tau2Secret], config: EnvironmentConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self.row: Tau2Row = task.secret.row
        self._said: list[dict[str, Any]] = []
        """The conversation so far in τ²-bench's own form, calls of both sides included."""
        self._history: list[dict[str, Any]] = []
        self._errors = 0
        self._has_hung_up = False
        self._tools: list[Tool] = []
        self._user_tools: list[Tool] = []

    @classmethod
    def splits(cls, config: Any) -> tuple[str, ...]:
        """`test` for all, each domain, and the splits of each: `retail`, `retail_train`."""
        return tuple(AboutRows.read(Path(config.data)).splits)

    @classmethod
    def tasks(cls, config: Tau2Config, split: str, seed: int) -> Iterator[Task[Public, Tau2Secret] | BadRow]:
        """Yield the imported tasks."""
        return read_rows(Path(config.data), split, with_judge=config.judge == "model")

    @classmethod
    def roles(cls, config: Tau2Config) -> tuple[str, ...]:
        """A user, and a judge where a task of this package asks one."""
        judged = config.judge == "model" and AboutRows.read(Path(config.data)).judged > 0
        return (*(("user",) if config.user == "model" else ()), *(("judge",) if judged else ()))

    @classmethod
    def limits(cls, config: Any) -> Limits:
        """τ²-bench ends a conversation after 200 steps, of which an agent's turns are half at the most."""
        return Limits(max_turns=100)

    @classmethod
    def deadlines(cls, config: Any) -> Deadlines:
        """A user's turn may take several calls of its model."""
        return Deadlines(tool_call=300.0)

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """The files of this package."""
        return sorted(Path(__file__).parent.rglob("*.py"))

    @classmethod
    def has_reference(cls, task: Task[Public, Any]) -> bool:
        """False where the task's own actions do not pass τ²-bench's evaluator."""
        return task.secret.row.reference_fails is None

    @classmethod
    async def prepare(cls, config: Tau2Config) -> None:
        """Create τ²-bench's virtual environment if there is none yet."""
        if cls.key(config) in cls.runtimes:
            return
        data = Path(config.data)
        lock, about = ForeignLock.read(data / LOCK_FILE), AboutRows.read(data)
        python = await to_thread.run_sync(lambda: foreign_home().python(lock.dependencies))
        way, seconds = config.retrieval, config.call_seconds
        program = program_of(data, python, about.domains, retrieval=way, call_seconds=seconds)
        cls.runtimes[cls.key(config)] = ForeignRuntime(program)

    @staticmethod
    def key(config: Tau2Config) -> tuple[str, str]:
        """Whose processes an episode shares."""
        return config.data, config.retrieval

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Hold the databases of both sides, in a process that is this episode's alone."""
        async with self.runtimes[self.key(self.config)].session() as session:
            self._session = session
            told = await session.ask("open", seconds=_OPEN_SECONDS, domain=self.row.domain, task=self.row.task)
            self._policy: str = told["agent"]
            self._user_prompt: str = told["user"]
            self._tools = [_tool(each) for each in told["tools"]]
            self._user_tools = [_tool(each) for each in told["user_tools"]]
            self._history = told["history"] or [{"role": "assistant", "content": _GREETING}]
            yield

    async def setup(self) -> None:
        """Have the user speak first, where the task does not begin with the agent's turn."""
        self._said += self._history
        self._caller = self._made_caller()
        last = self._history[-1]
        if last["role"] == "assistant" and not last.get("tool_calls"):
            await self._hear(last["content"])

    def _made_caller(self) -> Caller:
        if self.config.user == "model":
            past = _as_user_sees(self._history[:-1])
            return ModelCaller(self.models["user"], self._user_prompt, self._user_tools, self._use_as_user, past)
        parts = [actions for who, actions in self.row.runs if who == "user"]
        return ScriptedCaller(self.row.reason, parts, self._use_as_user)

    def task_tools(self) -> Sequence[Tool]:
        """The domain's tools for the agent; the user's tools are not among them."""
        return self._tools

    def messages(self, seat: str) -> Sequence[Message]:
        """The policy, and the messages before the agent's first turn."""
        return [system(self._policy), *_as_agent_sees(self._said)]

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Return the user's answer. Text that the agent writes beside a tool call is not passed on, as in τ²-bench."""
        aloud = [each.text for each in messages if each.role == "assistant" and not each.tool_requests]
        heard = "\n\n".join(text for text in aloud if text.strip())
        if self._has_hung_up or not heard:
            return None
        self._said.append({"role": "assistant", "content": heard})
        answer = await self._hear(heard)
        return None if answer is None else [user(answer)]

    async def _hear(self, heard: str) -> str | None:
        answer = await self._caller.answer(heard)
        self._said.append({"role": "user", "content": answer})
        self._has_hung_up = any(mark in answer for mark in MARKS)
        return None if self._has_hung_up else answer

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        """Have the domain answer a call of the agent's."""
        text, failed = await self._use("assistant", name, arguments)
        if self._errors >= self.config.most_errors:
            self.end_episode()
        elif failed:
            raise ToolError(text)
        return text

    async def _use_as_user(self, name: str, arguments: dict[str, Any]) -> str:
        if all(tool.name != name for tool in self._user_tools):
            self._errors += 1
            return f"Error: there is no tool {name!r}"[:200]
        text, _ = await self._use("user", name, arguments)
        return text

    async def _use(self, who: Requestor, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        session: ForeignSession = self._session
        given = {"name": name, "given": arguments, "requestor": who}
        seconds = 2 * self.config.call_seconds
        if who == "user":
            answer = await session.ask("call", seconds=seconds, **given)
        else:
            answer = await session.act("call", seconds=seconds, what=f"the call of {name!r}", **given)
        identity = f"call_{len(self._said)}"
        call = {"id": identity, "name": name, "arguments": arguments, "requestor": who}
        self._said.append({"role": who, "content": None, "tool_calls": [call]})
        told = {"id": identity, "content": answer["text"], "requestor": who, "error": answer["error"]}
        self._said.append({"role": "tool", **told})
        self._errors += bool(answer["error"])
        return answer["text"], answer["error"]

    def reference(self) -> Sequence[Message]:
        """The task's own actions as a script, with a message to the user wherever the user's actions follow."""
        if self.row.reference_fails is not None:
            return ()
        script: list[Message] = []
        for who, actions in self.row.runs:
            if who == "user":
                script.append(assistant(_PLEASE))
                continue
            for action in actions:
                arguments = to_json(action.arguments).decode()
                script.append(assistant("", ToolRequest(id=f"r{len(script)}", name=action.name, arguments=arguments)))
        told = " ".join(self.row.criteria.communicate_info or ())
        return [*script, assistant(told or _GOODBYE)]

    async def verify(self, submission: Submission) -> Score:
        """Score the conversation: τ²-bench's evaluator in a fresh process, and the judge for assertions in natural
        language.
        """
        if not self._has_hung_up:
            is_lost = self._errors >= self.config.most_errors
            why = "too many tool calls failed" if is_lost else "the user had not hung up"
            return Score(reward=0.0, passed=False, feedback=f"The conversation ended too early: {why}.")
        async with self.runtimes[self.key(self.config)].session() as session:
            seconds = _CHECK_CALLS * self.config.call_seconds
            given = {"domain": self.row.domain, "task": self.row.task, "said": self._said}
            try:
                verdict: dict[str, Any] = await session.ask("check", seconds=seconds, **given)
            except TaskError as error:
                blamed = await session.blame(error, "playing its calls again")
                if blamed is error:
                    raise
                return Score(reward=0.0, passed=False, feedback=str(blamed))
        reward, parts = float(verdict["reward"]), dict[str, float](verdict["parts"])
        if not parts:  # nothing counts but assertions, or nothing at all
            parts["reward"] = reward
        feedback = "; ".join(f"{name}: {value:g}" for name, value in parts.items())
        if reward > 0 and self.row.assertions:
            judged = await self._judged()
            parts["NL_ASSERTION"] = float(all(part.value == 1.0 for part in judged.components.values()))
            feedback = judged.feedback or feedback
        return product(parts, pass_at=1.0, feedback=feedback)

    async def _judged(self) -> Score:
        criteria = [Criterion(name=f"a{n}", question=each) for n, each in enumerate(self.row.assertions, 1)]
        judge = Judge(self.models["judge"], criteria, template=_JUDGED)
        lines = [json.dumps({"role": each["role"], "text": each.get("content"), **_calls(each)}) for each in self._said]
        return await judge.judge("\n".join(lines))


def _tool(function: dict[str, Any]) -> Tool:
    parameters: dict[str, Any] = {"type": "object", "properties": {}, **function["parameters"]}
    return Tool(name=function["name"], description=function["description"], input_schema=parameters)


def _calls(message: dict[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls") or ()
    return {"calls": [{"name": call["name"], "arguments": call["arguments"]} for call in calls]} if calls else {}


def _as_agent_sees(said: Sequence[dict[str, Any]]) -> list[Message]:
    """The conversation from the agent's side, without the user's own tool calls."""
    return _one_side(said, "assistant")


def _as_user_sees(said: Sequence[dict[str, Any]]) -> list[Message]:
    """The conversation from the user's side: the user's messages and calls as the model's own, the agent's messages
    as a user's.
    """
    return _one_side(said, "user")


def _one_side(said: Sequence[dict[str, Any]], own: Requestor) -> list[Message]:
    seen: list[Message] = []
    for each in said:
        role, text = each["role"], each.get("content") or ""
        if role == "tool":
            if each.get("requestor", "assistant") == own:
                seen.append(Message(role="tool", content=text, tool_call_id=each["id"]))
        elif role == own:
            calls = [
                ToolRequest(id=call["id"], name=call["name"], arguments=to_json(call["arguments"]).decode())
                for call in each.get("tool_calls") or ()
            ]
            seen.append(assistant(text, *calls))
        elif not each.get("tool_calls"):
            seen.append(user(text))
    return seen
