"""Exports of Langfuse: traces with their observations, or observations alone, as JSON or lines."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollouthub.analysis.foreign_runs.entries import as_json
from rollouthub.analysis.foreign_runs.foreign_messages import as_list, as_number, as_object, as_text
from rollouthub.analysis.foreign_runs.foreign_record import moment
from rollouthub.analysis.foreign_runs.json_pieces import first_keys
from rollouthub.analysis.foreign_runs.run_format import ForeignFacts, ForeignRun, Unreadable
from rollouthub.analysis.foreign_runs.span_attributes import parsed
from rollouthub.analysis.foreign_runs.span_files import span_objects
from rollouthub.analysis.foreign_runs.spans import MISSING, SpanKind, TraceSpan, part_messages, traces_of
from rollouthub.analysis.foreign_runs.usage_words import usage_of

_TOOL = "Langfuse"
_KINDS: dict[str, SpanKind] = {"GENERATION": "chat", "TOOL": "tool"}


class LangfuseExports:
    """A trace with a generation is a rollout, its scores are Langfuse's."""

    name = "langfuse"

    def recognises(self, path: Path) -> bool:
        """Whether the first object is an observation or a trace of Langfuse's."""
        keys = set(first_keys(path))
        if {"traceId", "type"} <= keys or ({"trace_id", "type"} <= keys and "parent_observation_id" in keys):
            return True
        if "observations" in keys and ("projectId" in keys or "scores" in keys):
            return True
        if "data" not in keys:
            return False
        first = next(span_objects(path, ("data",), most_objects=1), None)
        return not isinstance(first, Unreadable | None) and "traceId" in first[0] and "type" in first[0]

    def read(self, path: Path) -> ForeignRun:
        """Open an export."""
        facts = ForeignFacts(
            tool=_TOOL,
            environments=(path.name.partition(".")[0],),
            missing=(*MISSING, "scores, where observations were exported without their traces"),
            length=path.stat().st_size,
        )
        return ForeignRun(facts, traces_of(_spans(path), facts.environments[0], _TOOL))


def _spans(path: Path) -> Iterator[TraceSpan | Unreadable]:
    for entry in span_objects(path, ("data",)):
        if isinstance(entry, Unreadable):
            yield entry
            continue
        given, held, position = entry
        if "observations" in given:
            yield from _trace(given, held, position)
        else:
            yield _observation(given, held, position)


def _trace(given: dict[str, Any], held: int, position: int) -> Iterator[TraceSpan]:
    """A trace's own span, and those of its observations."""
    observations = [as_object(each) for each in as_list(parsed(given.get("observations")))]
    scores: dict[str, float] = {}
    for score in map(as_object, as_list(given.get("scores"))):
        value = as_number(score.get("value"))
        if value is not None:
            scores[as_text(score.get("name")) or "score"] = value
    spans = [_observation({"traceId": given.get("id"), **each}, 0, position) for each in observations]
    start = moment(given.get("timestamp")) or min((span.start for span in spans), default=0.0)
    root = TraceSpan(
        trace_id=str(given.get("id")),
        span_id=f"trace {given.get('id')}",
        parent_id=None,
        name=as_text(given.get("name")) or "",
        start=start,
        end=max([start, *(span.end for span in spans)]),
        scores=scores,
        held=held,
        position=position,
    )
    failed = [span for span in spans if span.error is not None and span.parent_id is None]
    if failed:
        root.error, root.error_type = failed[-1].error, failed[-1].error_type
    for span in spans:
        span.parent_id = span.parent_id or root.span_id
    yield root
    yield from spans


def _observation(given: dict[str, Any], held: int, position: int) -> TraceSpan:
    def field(*names: str) -> Any:
        return next((given[name] for name in names if given.get(name) not in (None, "")), None)

    failed = field("level") == "ERROR"
    span = TraceSpan(
        trace_id=str(field("traceId", "trace_id")),
        span_id=str(field("id")),
        parent_id=as_text(field("parentObservationId", "parent_observation_id")),
        name=as_text(given.get("name")) or "",
        kind=_KINDS.get(str(field("type")).upper(), "other"),
        start=moment(field("startTime", "start_time")) or 0.0,
        end=moment(field("endTime", "end_time")) or 0.0,
        error=(as_text(field("statusMessage", "status_message")) or "its level is ERROR") if failed else None,
        model=as_text(field("model", "providedModelName", "provided_model_name")),
        usage=usage_of(parsed(field("usageDetails", "usage_details", "usage"))),
        cost=as_number(field("calculatedTotalCost", "totalCost", "total_cost")),
        held=held,
        position=position,
    )
    asked, answered = parsed(field("input")), parsed(field("output"))
    if span.kind == "chat":
        span.asked, span.answered = _messages(asked, "user"), _messages(answered, "assistant")
    elif span.kind == "tool":
        span.call_id = as_text(as_object(asked).get("id")) or as_text(as_object(asked).get("tool_call_id"))
        span.result = answered if isinstance(answered, str) else None if answered is None else as_json(answered)
    return span


def _messages(given: Any, role: str) -> list[Any]:
    """An input or output: messages, an object with messages or choices, one message, or a text."""
    value = as_object(given)
    if isinstance(value.get("messages"), list):
        return part_messages(value["messages"])
    if isinstance(value.get("choices"), list):
        return [as_object(as_object(choice).get("message")) for choice in value["choices"]]
    if isinstance(given, list) and all(isinstance(each, dict) for each in as_list(given)):
        return part_messages(given)
    if "role" in value or "tool_calls" in value:
        return part_messages([{"role": role, **value}])
    text = given if isinstance(given, str) else as_json(given)
    return [] if given is None else [{"role": role, "content": text}]
