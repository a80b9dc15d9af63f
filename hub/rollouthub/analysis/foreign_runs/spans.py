"""Traces as rollouts: spans of any tracing tool in one form, gathered by trace, and a trace's model calls as turns."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mcp_types import Tool

from rollouthub.analysis.foreign_runs.entries import BAD, Entry, Samples
from rollouthub.analysis.foreign_runs.foreign_messages import as_list, as_object, as_text, chat_message, texts_of
from rollouthub.analysis.foreign_runs.foreign_record import ForeignEpisode, SaidMessage, found
from rollouthub.analysis.foreign_runs.run_format import Unreadable
from rollouthub.messages import Message
from rollouthub.rollout import Outcome, Timings, Usage

SpanKind = Literal["chat", "tool", "other"]
_QUIET_SPANS = 2000
"""A trace whose root has come is told when so many spans of others have come since its last."""
_MOST_HELD = 192 * 2**20
"""Bytes of spans that are held; beyond them the trace that had no span for longest is told as it is."""
_REWARDS = ("reward", "score", "correctness", "accuracy", "success")

MISSING = (
    "which environment, task and verifier: the root span's name and first prompt stand for them",
    "rewards, except where a trace has exactly one score, or one named reward, score, correctness, accuracy or success",
    "prompts and answers, where the application did not record them",
    "token ids and logprobs",
)
"""What traces do not have."""


@dataclass(slots=True)
class TraceSpan:
    """One span."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: SpanKind = "other"
    start: float = 0.0
    """Unix time in seconds."""
    end: float = 0.0
    error: str | None = None
    error_type: str = "Error"
    model: str | None = None
    asked: Sequence[Any] = ()
    """A model call's conversation, as chat messages in OpenAI's form."""
    answered: Sequence[Any] = ()
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    finish_reason: str | None = None
    tools: Sequence[Tool] = ()
    call_id: str | None = None
    """Of a tool's span, the id of the call."""
    arguments: Any = None
    result: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    agent: str | None = None
    held: int = 0
    """Bytes of its JSON."""
    position: int = 0


@dataclass(slots=True)
class _Open:
    spans: list[TraceSpan] = field(default_factory=list[TraceSpan])
    has_root: bool = False
    touched: int = 0
    held: int = 0


def traces_of(spans: Iterable[TraceSpan | Unreadable], environment: str, tool: str) -> Iterator[Entry]:
    """The rollouts of spans in any order, each trace as soon as it seems to be whole; memory stays bounded."""
    waiting: dict[str, _Open] = {}
    told: set[bytes] = set()
    traces = _Traces(environment, tool)
    count = held = 0
    for span in spans:
        if isinstance(span, Unreadable):
            yield span
            continue
        count += 1
        key = hashlib.blake2b(span.trace_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        if key in told:
            yield Unreadable(f"span {span.span_id!r:.60}", "its trace was told before it came", span.position)
            continue
        # In the order of their last spans: the first is the one that was quiet for longest.
        trace = waiting.pop(span.trace_id, None) or _Open()
        waiting[span.trace_id] = trace
        trace.spans.append(span)
        trace.has_root = trace.has_root or span.parent_id is None
        trace.touched, trace.held, held = count, trace.held + span.held, held + span.held
        while waiting:
            name, oldest = next(iter(waiting.items()))
            if held <= _MOST_HELD and not (oldest.has_root and count - oldest.touched > _QUIET_SPANS):
                break
            if held <= _MOST_HELD and not oldest.has_root:
                break
            del waiting[name]
            held -= oldest.held
            told.add(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest())
            yield from traces.told(name, oldest.spans)
    for name, trace in waiting.items():
        yield from traces.told(name, trace.spans)


class _Traces:
    def __init__(self, environment: str, tool: str) -> None:
        self._environment, self._tool, self._samples = environment, tool, Samples()

    def told(self, trace_id: str, spans: list[TraceSpan]) -> Iterator[Entry]:
        """The rollout of one trace; none of a trace without a model call, such as a health check."""
        spans.sort(key=lambda span: (span.start, span.end))
        position = max(span.position for span in spans)
        if not any(span.kind == "chat" for span in spans):
            return
        try:
            yield found(self._episode(trace_id, spans, position), self._tool)
        except BAD as error:
            yield Unreadable(f"trace {trace_id!r:.60}", str(error), position)

    def _episode(self, trace_id: str, spans: list[TraceSpan], position: int) -> ForeignEpisode:
        ids = {span.span_id for span in spans}
        root = next(
            (s for s in spans if s.parent_id is None), next((s for s in spans if s.parent_id not in ids), spans[0])
        )
        calls = [span for span in spans if span.kind == "chat"]
        media: dict[str, bytes] = {}
        said = _conversation(spans, root.start, media)
        prompt: list[Message] = []
        for each in said:
            if each.is_sampled:
                break
            prompt.append(each.message)
        scores = {name: value for span in spans for name, value in span.scores.items()}
        reward, metrics = _reward(scores)
        broken = _broken(root, spans)
        words = texts_of(prompt)
        asked = next((message.text for message in reversed(prompt) if message.role == "user"), "")
        task_id = " ".join(asked.split())[:60] or trace_id
        return ForeignEpisode(
            environment=self._environment,
            task_id=task_id,
            task=words or trace_id,
            said=said,
            sample=self._samples.next(task_id),
            agent=next((span.agent for span in spans if span.agent), None) or root.name or "unknown",
            model=next((span.model for span in calls if span.model), None),
            source=trace_id,
            outcome=Outcome.SCORED if broken is None else broken[0],
            reward=reward,
            score={"metrics": metrics},
            error=None if broken is None else broken[1].error,
            error_type="Error" if broken is None else broken[1].error_type,
            started_at=root.start,
            timings=Timings(
                total=max(0.0, max(span.end for span in spans) - root.start),
                agent=max(0.0, root.end - root.start),
                model=sum(max(0.0, span.end - span.start) for span in calls),
                tool=sum(max(0.0, span.end - span.start) for span in spans if span.kind == "tool"),
            ),
            tools=next((span.tools for span in reversed(calls) if span.tools), ()),
            media=media,
            gaps=() if any(span.asked for span in calls) else ("prompts",),
            position=position,
            held=sum(span.held for span in spans),
        )


def _reward(scores: Mapping[str, float]) -> tuple[float | None, dict[str, float]]:
    """The score that is the reward, and the others."""
    name = next((name for name in _REWARDS for given in scores if given.lower() == name), None)
    chosen = next((given for given in scores if given.lower() == name), None) if name else None
    if chosen is None and len(scores) == 1:
        chosen = next(iter(scores))
    return (None if chosen is None else scores[chosen]), {n: v for n, v in scores.items() if n != chosen}


def _broken(root: TraceSpan, spans: Sequence[TraceSpan]) -> tuple[Outcome, TraceSpan] | None:
    """What broke a trace whose root failed: the model, if its last call did, else the application."""
    if root.error is None:
        return None
    calls = [span for span in spans if span.kind == "chat"]
    if calls and calls[-1].error is not None:
        return Outcome.MODEL_FAILED, calls[-1] if calls[-1].error else root
    return Outcome.AGENT_FAILED, root


def _conversation(spans: Sequence[TraceSpan], start: float, media: dict[str, bytes]) -> list[SaidMessage]:
    """The model calls as turns. A call extends the turn whose whole conversation its own begins with; each message is
    kept once.
    """
    said: list[SaidMessage] = []
    known: dict[bytes, int] = {}
    count = 0
    for span in spans:
        if span.kind == "chat":
            if span.error is not None and not span.answered:
                continue  # no answer, so no turn: the fault says it
            asked = [chat_message(each, media) for each in span.asked]
            answer = _joined([chat_message({"role": "assistant", **as_object(each)}, media) for each in span.answered])
            parent, rest = _parent(asked, known)
            said += [SaidMessage(message) for message in rest]
            turn = {
                "parent_turn": parent,
                "usage": span.usage,
                "cost": span.cost,
                "finish_reason": span.finish_reason,
                "started": max(0.0, span.start - start),
                "seconds": max(0.0, span.end - span.start),
            }
            said.append(SaidMessage(answer, is_sampled=True, turn=turn))
            known[_key([*asked, answer])] = count
            count += 1
    return _with_results(said, spans, start)


def _with_results(said: list[SaidMessage], spans: Sequence[TraceSpan], start: float) -> list[SaidMessage]:
    """Add to the tools' messages what their spans know; and those of calls whose result no later prompt has."""
    tools = {span.call_id: span for span in spans if span.kind == "tool" and span.call_id}
    answered: set[str] = set()
    for each in said:
        if each.message.role == "tool" and each.message.tool_call_id is not None:
            answered.add(each.message.tool_call_id)
            if (span := tools.get(each.message.tool_call_id)) is not None:
                each.call = _ran(span, start)
    last = [request.id for each in said if each.is_sampled for request in each.message.tool_requests]
    for request in last:
        if request not in answered and (span := tools.get(request)) is not None:
            result = Message(role="tool", content=span.result or "", tool_call_id=request)
            said.append(SaidMessage(result, call=_ran(span, start)))
    return said


def _ran(span: TraceSpan, start: float) -> dict[str, Any]:
    return {
        "is_error": span.error is not None,
        "started": max(0.0, span.start - start),
        "seconds": max(0.0, span.end - span.start),
    }


def _joined(answers: Sequence[Message]) -> Message:
    return answers[0] if answers else Message(role="assistant")


def _parent(asked: Sequence[Message], known: Mapping[bytes, int]) -> tuple[int | None, Sequence[Message]]:
    """The turn that a conversation goes on from, and the messages after it."""
    keys = _keys(asked)
    for length in range(len(asked), 0, -1):
        if (turn := known.get(keys[length - 1])) is not None:
            return turn, asked[length:]
    return None, asked


def _keys(messages: Sequence[Message]) -> list[bytes]:
    """A digest of each beginning of a conversation."""
    running = hashlib.blake2b(digest_size=16)
    keys: list[bytes] = []
    for message in messages:
        calls = [(request.name, _canonical(request.arguments)) for request in message.tool_requests]
        text = json.dumps([message.role, message.text, calls])
        running.update(text.encode("utf-8", "surrogatepass"))
        keys.append(running.digest())
    return keys


def _key(messages: Sequence[Message]) -> bytes:
    return _keys(messages)[-1]


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def part_messages(given: Any) -> list[dict[str, Any]]:
    """Messages with `parts`, as OpenTelemetry's conventions have them, in OpenAI's form; others stay as they are."""
    made: list[dict[str, Any]] = []
    for each in as_list(given):
        message = as_object(each)
        parts = message.get("parts")
        if not isinstance(parts, list):
            made.append(message)
            continue
        content: list[Any] = []
        calls: list[Any] = []
        for part in map(as_object, as_list(parts)):
            kind = part.get("type")
            if kind == "tool_call":
                calls.append(part)
            elif kind == "tool_call_response":
                result = part.get("response", part.get("result"))
                text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=str)
                made.append({"role": "tool", "tool_call_id": as_text(part.get("id")), "content": text})
            elif kind == "blob" and as_text(part.get("content")):
                url = f"data:{part.get('mime_type')};base64,{part['content']}"
                content.append({"type": "image_url", "image_url": {"url": url}})
            else:
                content.append(part)
        if content or calls or not any(as_object(part).get("type") == "tool_call_response" for part in as_list(parts)):
            made.append({"role": message.get("role"), "content": content, "tool_calls": calls or None})
    return made
