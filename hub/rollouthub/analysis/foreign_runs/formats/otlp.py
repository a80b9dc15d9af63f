"""OTLP as JSON: documents or lines with `resourceSpans`, as OpenTelemetry's collector writes them to files."""

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollouthub.analysis.foreign_runs.foreign_messages import as_list, as_number, as_object, as_text
from rollouthub.analysis.foreign_runs.foreign_record import moment
from rollouthub.analysis.foreign_runs.json_pieces import Piece, decode, first_keys, json_document, json_lines
from rollouthub.analysis.foreign_runs.run_format import ForeignFacts, ForeignRun, Unreadable
from rollouthub.analysis.foreign_runs.span_attributes import fill
from rollouthub.analysis.foreign_runs.spans import MISSING, TraceSpan, traces_of

_TOOL = "OTLP"
_SPANS, _OLD = "resourceSpans", "resource_spans"
_DEPTH = 32


class OtlpSpans:
    """A trace with a model call is a rollout."""

    name = "otlp"

    def recognises(self, path: Path) -> bool:
        """Whether the first object has resource spans."""
        keys = first_keys(path)
        return _SPANS in keys[:2] or _OLD in keys[:2]

    def read(self, path: Path) -> ForeignRun:
        """Open a file of lines, or of one document."""
        facts = ForeignFacts(
            tool=_TOOL, environments=(path.name.partition(".")[0],), missing=MISSING, length=path.stat().st_size
        )
        return ForeignRun(facts, traces_of(_spans(path), facts.environments[0], _TOOL))


def _spans(path: Path) -> Iterator[TraceSpan | Unreadable]:
    if path.suffix == ".json" and not _is_lines(path):
        pieces = (piece for piece in json_document(path, (_SPANS, _OLD)) if piece.is_element)
        for number, piece in enumerate(pieces, 1):
            yield from _of(piece, f"entry {number} of {_SPANS}", is_whole=False)
        return
    for number, piece in json_lines(path):
        yield from _of(piece, f"line {number}", is_whole=True)


def _is_lines(path: Path) -> bool:
    """Whether a file has a document a line, whatever its name; looks at the second line's beginning."""
    numbered = json_lines(path, 1 << 22)
    first = next(numbered, None)
    if first is None or first[1].raw is None:
        return False
    try:
        decode(first[1].raw)
    except ValueError:
        return False
    return True


def _of(piece: Piece, place: str, *, is_whole: bool) -> Iterator[TraceSpan | Unreadable]:
    if piece.raw is None:
        yield Unreadable(place, "it is too large", piece.end)
        return
    try:
        value = as_object(decode(piece.raw))
    except ValueError as error:
        yield Unreadable(place, str(error), piece.end)
        return
    resources = as_list(value.get(_SPANS, value.get(_OLD))) if is_whole else [value]
    spans = [
        span
        for resource in map(as_object, resources)
        for scope in map(as_object, as_list(resource.get("scopeSpans", resource.get("scope_spans"))))
        for span in map(as_object, as_list(scope.get("spans")))
    ]
    for given in spans:
        yield _span(given, len(piece.raw) // len(spans), piece.end)


def _span(given: dict[str, Any], held: int, position: int) -> TraceSpan:
    def field(name: str, old: str) -> Any:
        return given.get(name, given.get(old))

    status = as_object(given.get("status"))
    failed = status.get("code") in (2, "STATUS_CODE_ERROR")
    span = TraceSpan(
        trace_id=_id(field("traceId", "trace_id")),
        span_id=_id(field("spanId", "span_id")),
        parent_id=_id(field("parentSpanId", "parent_span_id")) or None,
        name=as_text(given.get("name")) or "",
        start=moment(field("startTimeUnixNano", "start_time_unix_nano")) or 0.0,
        end=moment(field("endTimeUnixNano", "end_time_unix_nano")) or 0.0,
        error=(as_text(status.get("message")) or "the span's status is an error") if failed else None,
        held=held,
        position=position,
    )
    attributes = _attributes(given.get("attributes"))
    span.error_type = as_text(attributes.get("error.type")) or "Error"
    fill(span, attributes)
    _events(span, [as_object(event) for event in as_list(given.get("events"))])
    return span


def _events(span: TraceSpan, events: list[dict[str, Any]]) -> None:
    """What older conventions say in events: the conversation; and an exception, and evaluations."""
    asked: list[Any] = []
    answered: list[Any] = []
    scores = dict(span.scores)
    for event in events:
        name, about = str(event.get("name")), _attributes(event.get("attributes"))
        if name == "exception":
            span.error_type = as_text(about.get("exception.type")) or span.error_type
            if span.error is not None:
                span.error = as_text(about.get("exception.message")) or span.error
        elif name == "gen_ai.evaluation.result":
            value = as_number(about.get("gen_ai.evaluation.score.value"))
            if value is not None:
                scores[as_text(about.get("gen_ai.evaluation.name")) or "score"] = value
        elif name == "gen_ai.choice":
            answered.append(as_object(about.get("message")) or about)
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            asked.append({"role": name.split(".")[1], "tool_call_id": about.get("id"), **about})
    span.scores = scores
    span.asked = span.asked or asked
    span.answered = span.answered or answered


def _attributes(given: Any) -> dict[str, Any]:
    return {str(as_object(each).get("key")): _value(as_object(each).get("value")) for each in as_list(given)}


def _value(given: Any, depth: int = _DEPTH) -> Any:
    """An attribute's value out of OTLP's union."""
    value = as_object(given)
    for name, each in value.items():
        kind = name.replace("_v", "V")
        if kind == "intValue" and isinstance(each, str):
            return int(each) if each.lstrip("-").isdecimal() and len(each) < 20 else each
        if kind == "arrayValue" and depth:
            return [_value(inner, depth - 1) for inner in as_list(as_object(each).get("values"))]
        if kind == "kvlistValue" and depth:
            pairs = map(as_object, as_list(as_object(each).get("values")))
            return {str(pair.get("key")): _value(pair.get("value"), depth - 1) for pair in pairs}
        return each
    return None


def _id(given: Any) -> str:
    """An id as hex; some writers have it as base64, which Protobuf's own JSON prescribes."""
    text = as_text(given) or ""
    if len(text) in (12, 24) and text.endswith("="):
        try:
            return base64.b64decode(text, validate=True).hex()
        except binascii.Error:
            return text
    return "" if not text.strip("0") else text.lower()
