"""The spans of an environment server: its part of an episode, in the trace of the client that opened the episode.

The trace id is sent over the control plane only, so that an agent can neither read its trace nor join one.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from mcp_types import CallToolResult, Tool
from pydantic import JsonValue

from rollouthub.hosting.local.shell_access import EnterableEpisode, WaysIn
from rollouthub.http.asgi import Application, Receive, Scope, Send, header
from rollouthub.limits import Deadlines
from rollouthub.messages import Message
from rollouthub.protocols import AgentPlane, EnvironmentHost, EnvironmentInfo, Episode, TaskCard
from rollouthub.rollout import Fault
from rollouthub.sandbox import SandboxRef
from rollouthub.score import KeptArtifact, ModelCall, SampleGroup, Score, Submission
from rollouthub.task import AuditFacts, BadRow
from rollouthub.telemetry.traces.spans import UNKNOWN_TOOL, Span, Value, new_id
from rollouthub.telemetry.traces.tracer import SpanTracer
from rollouthub.tracing import HEADER, TRACEPARENT, parse


class AdoptingTraces:
    """A control plane that takes the trace of each request from the request's header."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request in its trace."""
        given = header(scope, HEADER.encode()) if scope["type"] == "http" else None
        before = TRACEPARENT.set(None if given is None else given.decode("latin-1"))
        try:
            await self._application(scope, receive, send)
        finally:
            TRACEPARENT.reset(before)


class _SpanParent:
    """Where the spans of one episode belong: a trace, and a parent span."""

    def __init__(self, tracer: SpanTracer, environment: str) -> None:
        self._tracer, self._environment = tracer, environment
        self._trace_id, self._parent = parse(TRACEPARENT.get() or "") or (new_id(16), b"")

    @contextmanager
    def span(self, name: str, **attributes: Value) -> Generator[None]:
        """Record a span around the block."""
        start, error = time.time(), None
        try:
            yield
        except BaseException as problem:
            error = type(problem).__name__
            raise
        finally:
            self.put(name, start, error, **attributes)

    def put(self, name: str, start: float, error: str | None, **attributes: Value) -> None:
        """Record a span that ends now."""
        said: dict[str, Value] = {"rollouthub.environment.name": self._environment}
        said |= {key.replace("__", "."): value for key, value in attributes.items()}
        if error is not None:
            said["error.type"] = error
        self._tracer.take(
            Span(self._trace_id, new_id(8), self._parent, name, start, time.time(), "server", said, error)
        )


class TracedHost:
    """A host whose episodes record spans."""

    def __init__(self, host: EnvironmentHost, tracer: SpanTracer) -> None:
        self._host, self._tracer = host, tracer

    @property
    def info(self) -> EnvironmentInfo:
        """The traced host's `info`."""
        return self._host.info

    def tasks(self, split: str, seed: int) -> AsyncIterator[TaskCard | BadRow]:
        """The traced host's tasks."""
        return self._host.tasks(split, seed)

    async def find_task(self, split: str, task_id: str, seed: int) -> TaskCard:
        """Find a task as the traced host does."""
        return await self._host.find_task(split, task_id, seed)

    async def score(self, task: TaskCard, submission: Submission, *, seed: int, deadlines: Deadlines) -> Score:
        """Score as the traced host does, in a span."""
        with _SpanParent(self._tracer, self.info.name).span("verify"):
            return await self._host.score(task, submission, seed=seed, deadlines=deadlines)

    async def score_group(
        self, task: TaskCard, group: SampleGroup, *, seed: int, deadlines: Deadlines
    ) -> Sequence[Score]:
        """Score a group as the traced host does, in a span."""
        with _SpanParent(self._tracer, self.info.name).span("verify_group"):
            return await self._host.score_group(task, group, seed=seed, deadlines=deadlines)

    @asynccontextmanager
    async def open(
        self, task: TaskCard, *, seed: int, deadlines: Deadlines, state: JsonValue = None
    ) -> AsyncGenerator[Episode]:
        """Open an episode as the traced host does, with a span of its setup."""
        place, start = _SpanParent(self._tracer, self.info.name), time.time()
        is_open = False
        try:
            async with self._host.open(task, seed=seed, deadlines=deadlines, state=state) as episode:
                is_open = True
                place.put("setup", start, None)
                yield TracedEpisode(episode, place)
        except BaseException as error:
            if not is_open:
                place.put("setup", start, type(error).__name__)
            raise


class TracedEpisode:
    """An episode that records spans of the operations on it."""

    def __init__(self, episode: Episode, place: _SpanParent) -> None:
        self._episode, self._place = episode, place
        self._seats = {name: TracedPlane(plane, place) for name, plane in episode.seats.items()}
        self._is_judged = self._is_closed = False

    @property
    def id(self) -> str:
        return self._episode.id

    @property
    def seats(self) -> Mapping[str, AgentPlane]:
        return self._seats

    @property
    def is_sealed(self) -> bool:
        return self._episode.is_sealed

    @property
    def answer(self) -> str | None:
        return self._episode.answer

    @property
    def faults(self) -> Sequence[Fault]:
        return self._episode.faults

    @property
    def role_calls(self) -> Sequence[ModelCall]:
        return self._episode.role_calls

    @property
    def sandboxes(self) -> Sequence[SandboxRef]:
        return self._episode.sandboxes

    @property
    def artifacts(self) -> Sequence[KeptArtifact]:
        return self._episode.artifacts

    @property
    def missing_artifacts(self) -> Sequence[str]:
        return self._episode.missing_artifacts

    async def ways_in(self) -> WaysIn:
        """The traced episode's ways to enter it."""
        return await self._episode.ways_in() if isinstance(self._episode, EnterableEpisode) else WaysIn()

    async def leave(self, seat: str) -> None:
        """Tell the traced episode that a seat's player is done."""
        await self._episode.leave(seat)

    async def reference(self, seat: str | None = None) -> Sequence[Message]:
        """The traced episode's reference solution."""
        return await self._episode.reference(seat)

    async def audit_facts(self) -> AuditFacts:
        """What an audit must know of the traced episode's task."""
        return await self._episode.audit_facts()

    async def snapshot(self) -> JsonValue:
        """The traced episode's state."""
        return await self._episode.snapshot()

    async def seal(self) -> None:
        """Seal the traced episode."""
        await self._episode.seal()

    async def verify(self, submission: Submission) -> Score:
        """Verify the traced episode; the first time, in a span."""
        if self._is_judged:  # the verdict is there
            return await self._episode.verify(submission)
        self._is_judged = True
        with self._place.span("verify"):
            return await self._episode.verify(submission)

    async def conclude(self, submission: Submission) -> Score | None:
        """Conclude the traced episode, in a span unless its verdict has one already."""
        if self._is_judged:
            return await self._episode.conclude(submission)
        self._is_judged = True
        with self._place.span("verify"):
            return await self._episode.conclude(submission)

    async def close(self) -> None:
        """Close the traced episode; the first time, in a span."""
        if self._is_closed:
            return await self._episode.close()
        self._is_closed = True
        with self._place.span("close"):
            return await self._episode.close()


class TracedPlane:
    """A seat that records spans of its tool calls."""

    def __init__(self, plane: AgentPlane, place: _SpanParent) -> None:
        self._plane, self._place = plane, place
        self._names = {tool.name for tool in plane.tools}

    @property
    def token(self) -> str:
        return self._plane.token

    @property
    def messages(self) -> tuple[Message, ...]:
        return self._plane.messages

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self._plane.tools

    @property
    def task_tools(self) -> frozenset[str]:
        return self._plane.task_tools

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool as the traced seat does, in a span."""
        start, error = time.time(), None
        shown = name if name in self._names else UNKNOWN_TOOL
        try:
            result = await self._plane.call_tool(name, arguments)
            error = "tool_error" if result.is_error else None
            return result
        except BaseException as problem:
            error = type(problem).__name__
            raise
        finally:
            self._place.put(
                f"execute_tool {shown}",
                start,
                error,
                gen_ai__operation__name="execute_tool",
                gen_ai__tool__name=shown,
            )

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Pass messages to the traced seat, and return its user's next messages; None when the conversation is over."""
        return await self._plane.reply(messages)
