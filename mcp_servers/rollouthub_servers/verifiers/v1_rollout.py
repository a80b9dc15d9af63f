"""`TaskRollout`: an episode by the library's own `Env.run`, whose agent is the one that plays.

The library's rollout runs as it is, with its hooks, stops, limits and scoring; in place of a program in a box that asks
an endpoint, there is a harness that asks the hub, and calls tools in this process.
"""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from verifiers.v1 import graph
from verifiers.v1 import rollout as library_rollout
from verifiers.v1.clients import ModelContext
from verifiers.v1.configs.client import EvalClientConfig
from verifiers.v1.errors import HarnessError
from verifiers.v1.harness import HarnessSession
from verifiers.v1.harnesses.null.harness import NullHarness
from verifiers.v1.trace import ModelCall
from verifiers.v1.types import (
    AssistantMessage,
    Request,
    Response,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from verifiers.v1.utils import loaders

from rollouthub_servers.foreign.said_steps import shown, taken
from rollouthub_servers.foreign.serving import Refused
from rollouthub_servers.verifiers.v1_tools import OpenTools

OVER = "The episode is over."
SEVERAL = "its episodes run several agents, and one plays here"
_MODEL = "policy"
PLAYED: "list[TaskRollout]" = []
"""The rollout of this process: a session is a process."""


class HubHarness(NullHarness):
    """Asks the playing agent."""

    async def setup(self, runtime: Any) -> None:
        """There is no program to install."""

    async def session(self, *given: Any, **more: Any) -> Any:
        """The one conversation of an episode."""
        (rollout,) = PLAYED
        if rollout.conversation is not None:
            rollout.is_several = True
            raise HarnessError(SEVERAL)
        rollout.conversation = _Conversation(self, *given, **more)
        rollout.conversation.rollout = rollout
        return rollout.conversation


class _Conversation(HarnessSession):
    """A conversation with the playing agent."""

    rollout: "TaskRollout"

    async def turn(self, messages: Any = None) -> None:
        """Go on until the agent says something without calling a tool."""
        if self.rollout.messages is None:
            system, prompt = self.harness.resolve_prompt(self.data)
            opening = [UserMessage(content=prompt)] if isinstance(prompt, str) else list(prompt or ())
            self.rollout.messages = [*([SystemMessage(content=system)] if system else ()), *opening]
        if messages:
            self.rollout.hear(list(messages))
        while not await self._said_enough():
            pass

    async def _said_enough(self) -> bool:
        """One turn, as the library's endpoint takes it; whether the segment is over."""
        rollout, session, trace = self.rollout, self.rollout.session, self.trace
        if await session.refused() is not None:
            return True
        tools = rollout.tools.tools
        request, rewrites, stopped = await session.rewrite_request(Request(messages=rollout.messages, tools=tools))
        trace.request_rewrites.extend(rewrites)
        if rewrites:
            rollout.messages = list(request.messages)
        turn = graph.prepare_turn(trace, request.messages, tools)
        if stopped is not None:
            turn.commit_prompt()
            trace.stop(stopped)
            return True
        message = await rollout.ask()
        if message is None:
            trace.stop("agent_left")
            return True
        response, rewritten, stopped = await session.rewrite_response(_response(message))
        if session.stopped:
            return True
        node = turn.commit(response)
        session.consume_prepared(turn.tail)
        trace.response_rewrites.extend(rewritten)
        trace.calls.append(ModelCall(node=node, model=_MODEL, finish_reason=response.finish_reason))
        rollout.say(response.message)
        stopped = stopped or await session.gate_tool_calls(node)
        if stopped is not None:
            trace.stop(stopped)
            return True
        for call in response.message.tool_calls or ():
            verdict = await session.decide_tool(call.id, call.name)
            if verdict.get("action") == "stop":
                return True
            told = {"content": "", **verdict["message"]} if verdict.get("action") == "deny" else None
            said = await rollout.tools.call(call.name, call.arguments) if told is None else told["content"]
            rollout.hear([ToolMessage(tool_call_id=call.id, name=call.name, content=said)])
        return not response.message.tool_calls

    async def close(self) -> None:
        """The conversation is over: what is scored is what was said in it, message by message."""
        if not self._closed:
            self._closed = True
            await self.rollout.close(self.trace)


def _response(message: Any) -> Any:
    finished = "tool_calls" if message.tool_calls else "stop"
    return Response(id="hub", created=0, model=_MODEL, message=message, finish_reason=finished)


class TaskRollout:
    """One episode of a task."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.conversation: Any = None
        self.session: Any = None
        self.tools: Any = None
        self.messages: list[Any] | None = None
        self.is_several = False
        self._steps: list[Any] = []
        self._heard: list[list[Any]] = []
        """What the environment said after each step."""
        self._opening: list[Any] = []
        self._calls_made = False
        self._loop = asyncio.new_event_loop()
        self._wake = asyncio.Event()
        self._asked: asyncio.Future[Any] | None = None
        self._closing: asyncio.Future[Any] | None = None
        self._task: asyncio.Task[Any] | None = None
        self._known = 0

    def hear(self, messages: "list[Any]") -> None:
        """Take up what the environment says."""
        self.messages = [*(self.messages or ()), *messages]
        if self._heard:
            self._heard[-1].extend(messages)
        else:
            self._opening = list(self.messages)

    def say(self, message: Any) -> None:
        """Take up what the agent says."""
        assert self.messages is not None
        if not self._steps:
            self._opening = list(self.messages)
        self.messages = [*self.messages, message]
        self._steps.append(message)
        self._heard.append([])

    async def ask(self) -> Any:
        """Wait for what the agent says; None where it says nothing more."""
        self._asked = asyncio.get_running_loop().create_future()
        self._wake.set()
        try:
            return await self._asked
        finally:
            self._asked = None

    async def close(self, trace: Any) -> None:
        """Wait until it is to be scored, and put steps of single calls together again."""
        self._closing = asyncio.get_running_loop().create_future()
        self._wake.set()
        said = await self._closing
        if self._calls_made and said:
            self._regroup(trace, said)

    def _regroup(self, trace: Any, said: "list[dict[str, Any]]") -> None:
        trace.nodes.clear()
        trace.calls.clear()
        trace._head_index.clear()
        conversation, at = list(self._opening), 0
        for message in said:
            count = taken(self._steps, at, message)
            if not count:
                continue
            written = assistant_message(message)
            node = graph.prepare_turn(trace, conversation, self.tools.tools).commit(_response(written))
            trace.calls.append(ModelCall(node=node, model=_MODEL, finish_reason=_response(written).finish_reason))
            conversation += [written, *(each for told in self._heard[at : at + count] for each in told)]
            at += count

    def begin(self, row: "dict[str, Any]") -> "dict[str, Any]":
        """Start: the conversation, the tools, and whether it is over already."""
        assert self._task is None, "a rollout begins once"
        PLAYED[:] = [self]
        kind = type(self.env.taskset).task_type()
        task = kind(kind.data_type().model_validate(row), self.env.taskset.config.task)
        context = ModelContext(model=_MODEL, client=EvalClientConfig())
        self._task = self._loop.create_task(self.env.run_episode(task, context))
        self._run()
        return self._seen()

    def _run(self) -> None:
        async def until() -> None:
            assert self._task is not None
            woken = asyncio.ensure_future(self._wake.wait())
            await asyncio.wait({self._task, woken}, return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()
            self._wake.clear()

        self._loop.run_until_complete(until())

    @property
    def is_over(self) -> bool:
        """Whether no agent is asked any more."""
        return self._asked is None

    def _seen(self) -> "dict[str, Any]":
        if self._task is not None and self._task.done():
            self._raise_errors(self._task.result())
        messages = self.messages or []
        told, self._known = messages[self._known :], len(messages)
        tools = [] if self.tools is None else self.tools.tools
        plain = [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in tools]
        return {"messages": [shown(each) for each in told], "tools": plain, "is_over": self.is_over}

    def _say(self, message: Any) -> "dict[str, Any]":
        if self._asked is None:
            raise Refused(OVER)
        self._known += 1
        self._asked.set_result(message)
        self._run()
        return self._seen()

    def answer(self, message: "dict[str, Any]") -> "dict[str, Any]":
        """Say a message, with all its calls, and hear what the environment answers."""
        return self._say(assistant_message(message))

    def call(self, id: str, name: str, arguments: str) -> "dict[str, Any]":
        """Make one call."""
        self._calls_made = True
        return self._say(AssistantMessage(tool_calls=[ToolCall(id=id, name=name, arguments=arguments)]))

    def replay(self, row: "dict[str, Any]", said: "list[dict[str, Any]]") -> None:
        """Play a whole transcript; what is left of it when the environment has ended is not heard."""
        self.begin(row)
        for message in said:
            if self.is_over:
                return
            self.answer(message)

    def score(self, said: "list[dict[str, Any]]") -> "dict[str, Any]":
        """End it, and give what the library's own scoring has recorded."""
        if self._asked is not None:
            self._asked.set_result(None)
            self._run()
        assert self._task is not None
        if self._closing is not None and not self._closing.done():
            self._closing.set_result(said)
        while not self._task.done():
            self._run()
            if self._asked is not None:
                raise RuntimeError(SEVERAL)
        episode = self._task.result()
        self._raise_errors(episode)
        (trace,) = episode.traces
        missing = [name for name, reward in trace.rewards.items() if reward is None]
        if missing:
            raise RuntimeError(f"no score of {', '.join(missing)}")
        metrics = {name: value for name, value in trace.metrics.items() if value is not None}
        rewards = {name: reward.score for name, reward in trace.rewards.items()}
        told = {"reward": trace.reward, "metrics": {**metrics, **rewards}, "failed": []}
        return {**told, "stop": trace.stop_condition, "turns": trace.num_turns}

    def _raise_errors(self, episode: Any) -> None:
        if self.is_several:
            raise RuntimeError(SEVERAL)
        errors = [*episode.errors, *(error for trace in episode.traces for error in trace.errors)]
        if errors:
            raise RuntimeError("; ".join(f"{error.type}: {error.message}" for error in errors)[:1_000])


def assistant_message(message: "dict[str, Any]") -> Any:
    """A message of the hub's in the library's form."""
    calls = [ToolCall(**call) for call in message.get("tool_calls") or ()]
    content = message.get("content") or (None if calls else "")
    thought = message.get("reasoning_content") or None
    return AssistantMessage(content=content, reasoning_content=thought, tool_calls=calls or None)


@contextlib.asynccontextmanager
async def _no_endpoint(interception: Any, runtime: Any, session: Any, servers: Any, shared: Any) -> AsyncGenerator[Any]:
    """In place of the library's endpoint: the session stays here."""
    (rollout,) = PLAYED
    if rollout.session is None:
        rollout.session = session
    yield "http://127.0.0.1:1", "", ""


@contextlib.asynccontextmanager
async def _no_servers(toolsets: Any, runtime: Any, **_: Any) -> AsyncGenerator[Any]:
    """In place of the library's tool servers: their tools are answered here."""
    (rollout,) = PLAYED
    if rollout.tools is None:
        trace = rollout.session.trace
        rollout.tools = OpenTools(trace)
        await rollout.tools.open(rollout.env.taskset.toolsets(rollout.env.taskset.config))
        await rollout.tools.open(toolsets, trace.task.data)
    yield {}


def take_over() -> None:
    """Have the library's rollouts ask the playing agent."""
    library_rollout.serve_interception, library_rollout.serve_tools = _no_endpoint, _no_servers
    loaders.load_harness = HubHarness
