"""Spans exported from Phoenix (its client's `get_spans`, its REST API): JSON or lines."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollouthub.analysis.foreign_runs.foreign_messages import as_list, as_number, as_object, as_text
from rollouthub.analysis.foreign_runs.foreign_record import moment
from rollouthub.analysis.foreign_runs.json_pieces import first_keys
from rollouthub.analysis.foreign_runs.run_format import ForeignFacts, ForeignRun, Unreadable
from rollouthub.analysis.foreign_runs.span_attributes import fill
from rollouthub.analysis.foreign_runs.span_files import span_objects
from rollouthub.analysis.foreign_runs.spans import MISSING, TraceSpan, traces_of

_TOOL = "Phoenix"


class PhoenixSpans:
    """A trace with a model call is a rollout."""

    name = "phoenix"

    def recognises(self, path: Path) -> bool:
        """Whether the first span has a `context` and a `span_kind`."""
        keys = set(first_keys(path))
        return {"context", "span_kind"} <= keys or self._is_page(path)

    def _is_page(self, path: Path) -> bool:
        first = next(span_objects(path, ("data",), most_objects=1), None) if first_keys(path)[:1] == ("data",) else None
        return not isinstance(first, Unreadable | None) and {"context", "span_kind"} <= set(first[0])

    def read(self, path: Path) -> ForeignRun:
        """Open a page of the REST API, a list, or lines of spans."""
        facts = ForeignFacts(
            tool=_TOOL, environments=(path.name.partition(".")[0],), missing=MISSING, length=path.stat().st_size
        )
        return ForeignRun(facts, traces_of(_spans(path), facts.environments[0], _TOOL))


def _spans(path: Path) -> Iterator[TraceSpan | Unreadable]:
    for entry in span_objects(path, ("data",)):
        yield entry if isinstance(entry, Unreadable) else _span(*entry)


def _span(given: dict[str, Any], held: int, position: int) -> TraceSpan:
    context = as_object(given.get("context"))
    failed = str(given.get("status_code")).upper() == "ERROR"
    span = TraceSpan(
        trace_id=str(context.get("trace_id")),
        span_id=str(context.get("span_id")),
        parent_id=as_text(given.get("parent_id")),
        name=as_text(given.get("name")) or "",
        start=moment(given.get("start_time")) or 0.0,
        end=moment(given.get("end_time")) or 0.0,
        error=(as_text(given.get("status_message")) or "the span's status is an error") if failed else None,
        held=held,
        position=position,
    )
    fill(span, {"openinference.span.kind": given.get("span_kind"), **as_object(given.get("attributes"))})
    scores = dict(span.scores)
    for note in map(as_object, as_list(given.get("annotations"))):
        value = as_number(as_object(note.get("result")).get("score"))
        if value is not None:
            scores[as_text(note.get("name")) or "score"] = value
    span.scores = scores
    return span
