"""The spans of an attempt and its calls. They contain no prompt, answer, argument or error text."""

import os
import time
from dataclasses import dataclass, field
from typing import Literal

from rollouthub.generation import ModelReply, ModelRequest
from rollouthub.rollout import Rollout

Value = str | int | float | bool | tuple[str, ...]
Kind = Literal["internal", "client", "server"]
MOST_CALLS = 512
"""Most model calls, and most tool calls, of one attempt that get a span each; further ones are only counted."""
UNKNOWN_TOOL = "unknown"
"""Name in a span of a tool that the environment does not have, because that name is the model's own text."""


def new_id(size: int) -> bytes:
    """A random, unguessable id of `size` bytes."""
    return os.urandom(size)


@dataclass(slots=True)
class Span:
    """A named interval of a trace."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    """The parent span's id; empty for the root of a trace."""
    name: str
    start: float
    """Unix time in seconds."""
    end: float
    kind: Kind = "internal"
    attributes: dict[str, Value] = field(default_factory=dict[str, Value])
    error: str | None = None
    """The kind of an error: a class's name or a fixed word, never a message."""


@dataclass(slots=True)
class CallNote:
    """The data that a trace keeps of one call of the run's model."""

    span_id: bytes
    start: float
    end: float
    model: str
    max_tokens: int | None
    reply: tuple[str | None, int, int, str | None] | None
    """The model that answered, prompt tokens, output tokens, finish reason; None if the call failed."""
    error: str | None


def note_of(
    span_id: bytes,
    start: float,
    model: str,
    request: ModelRequest,
    reply: ModelReply | None,
    error: BaseException | None,
) -> CallNote:
    """The data of one model call that a trace keeps."""
    said = None
    if reply is not None:
        said = (reply.model, reply.usage.prompt_tokens, reply.usage.output_tokens, reply.finish_reason)
    failed = None if error is None else type(error).__name__
    return CallNote(span_id, start, time.time(), model, request.sampling.max_tokens, said, failed)


@dataclass(slots=True)
class AttemptNote:
    """The data of an attempt that is kept until its spans are made, because the record itself may be large."""

    trace_id: bytes
    root: bytes
    start: float
    seconds: float
    stages: tuple[tuple[str, float], ...]
    """The seconds of `setup`, `agent`, `verify` and `close`, in this order."""
    calls: list[CallNote]
    tools: list[tuple[str, float, float, bool]]
    """For each tool call: name, seconds from the attempt's start, duration in seconds, and whether it returned an
    error.
    """
    attributes: dict[str, Value]
    agent: str
    error: str | None

    @property
    def count(self) -> int:
        """How many spans the note makes."""
        return 1 + sum(seconds > 0 for _, seconds in self.stages) + len(self.calls) + len(self.tools)


def attempt_note(
    trace_id: bytes, root: bytes, calls: list[CallNote], rollout: Rollout, tools: frozenset[str]
) -> AttemptNote:
    """The data of one attempt that a trace keeps."""
    timings, outcome = rollout.timings, rollout.outcome
    attributes: dict[str, Value] = {
        "rollouthub.run.id": rollout.run_id,
        "rollouthub.rollout.id": rollout.rollout_id,
        "rollouthub.group.id": rollout.group_id,
        "rollouthub.sample": rollout.sample,
        "rollouthub.attempt": rollout.attempt,
        "rollouthub.environment.name": rollout.environment.name,
        "rollouthub.environment.version": rollout.environment.version,
        "rollouthub.outcome": outcome.value,
        "rollouthub.outcome.kind": outcome.kind,
        "rollouthub.stop": rollout.stop.value,
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": rollout.agent.name,
    }
    if rollout.model is not None:
        attributes["gen_ai.request.model"] = rollout.model
    if rollout.score is not None:
        attributes["rollouthub.reward"] = rollout.score.reward
        if rollout.score.passed is not None:
            attributes["rollouthub.passed"] = rollout.score.passed
    called = [
        (call.name if call.name in tools else UNKNOWN_TOOL, call.started, call.seconds, call.is_error)
        for turn in rollout.turns
        for call in turn.tool_calls
    ]
    if (beyond := max(0, len(called) - MOST_CALLS) + max(0, len(calls) - MOST_CALLS)) > 0:
        attributes["rollouthub.calls_without_span"] = beyond
    return AttemptNote(
        trace_id=trace_id,
        root=root,
        start=rollout.started_at,
        seconds=timings.total,
        stages=tuple((stage, getattr(timings, stage)) for stage in ("setup", "agent", "verify", "close")),
        calls=calls[:MOST_CALLS],
        tools=called[:MOST_CALLS],
        attributes=attributes,
        agent=rollout.agent.name,
        error=None if outcome.kind == "scored" else (rollout.faults[0].type if rollout.faults else outcome.value),
    )


def spans_of(note: AttemptNote) -> list[Span]:
    """The spans of an attempt: the attempt itself, its stages, and its calls below them."""
    name = note.attributes["rollouthub.environment.name"]
    end = note.start + note.seconds
    root = Span(note.trace_id, note.root, b"", f"rollout {name}", note.start, end, "internal", note.attributes)
    root.error = note.error
    spans, at = [_explained(root)], note.start
    acting = note.root
    for stage, seconds in note.stages:
        if seconds > 0:
            title = f"invoke_agent {note.agent}" if stage == "agent" else stage
            span = Span(note.trace_id, new_id(8), note.root, title, at, at + seconds)
            if stage == "agent":
                acting = span.span_id
            spans.append(span)
            at += seconds
    spans += [_model_span(note, call, acting) for call in note.calls]
    spans += [_tool_span(note, *call, acting) for call in note.tools]
    return spans


def _model_span(note: AttemptNote, call: CallNote, parent: bytes) -> Span:
    attributes: dict[str, Value] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": call.model}
    provider, slash, _ = call.model.partition("/")
    if slash:
        attributes["gen_ai.provider.name"] = provider
    if call.max_tokens is not None:
        attributes["gen_ai.request.max_tokens"] = call.max_tokens
    if call.reply is not None:
        model, prompt, output, finish = call.reply
        attributes["gen_ai.response.model"] = model or call.model
        attributes["gen_ai.usage.input_tokens"] = prompt
        attributes["gen_ai.usage.output_tokens"] = output
        if finish is not None:
            attributes["gen_ai.response.finish_reasons"] = (finish,)
    title = f"chat {call.model}"
    return _explained(
        Span(note.trace_id, call.span_id, parent, title, call.start, call.end, "client", attributes, call.error)
    )


def _tool_span(note: AttemptNote, name: str, started: float, seconds: float, is_error: bool, parent: bytes) -> Span:
    start = note.start + started
    attributes: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    error = "tool_error" if is_error else None
    title = f"execute_tool {name}"
    return _explained(
        Span(note.trace_id, new_id(8), parent, title, start, start + seconds, "internal", attributes, error)
    )


def _explained(span: Span) -> Span:
    if span.error is not None:
        span.attributes["error.type"] = span.error
    return span
