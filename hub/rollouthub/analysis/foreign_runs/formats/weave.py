"""Calls exported from Weave: JSON or lines with `op_name`, `trace_id`, `inputs`, `output`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollouthub.analysis.foreign_runs.foreign_messages import as_list, as_number, as_object, as_text, tool_definitions
from rollouthub.analysis.foreign_runs.foreign_record import moment
from rollouthub.analysis.foreign_runs.json_pieces import first_keys
from rollouthub.analysis.foreign_runs.run_format import ForeignFacts, ForeignRun, Unreadable
from rollouthub.analysis.foreign_runs.span_attributes import nested, parsed
from rollouthub.analysis.foreign_runs.span_files import span_objects
from rollouthub.analysis.foreign_runs.spans import MISSING, TraceSpan, part_messages, traces_of
from rollouthub.analysis.foreign_runs.usage_words import usage_of

_TOOL = "Weave"


class WeaveCalls:
    """A trace with a model call is a rollout; the feedback of scorers on its root is its scores."""

    name = "weave"

    def recognises(self, path: Path) -> bool:
        """Whether the first object is a call."""
        return {"op_name", "trace_id"} <= set(first_keys(path))

    def read(self, path: Path) -> ForeignRun:
        """Open an export."""
        facts = ForeignFacts(
            tool=_TOOL, environments=(path.name.partition(".")[0],), missing=MISSING, length=path.stat().st_size
        )
        return ForeignRun(facts, traces_of(_spans(path), facts.environments[0], _TOOL))


def _spans(path: Path) -> Iterator[TraceSpan | Unreadable]:
    for entry in span_objects(path):
        yield entry if isinstance(entry, Unreadable) else _call(*entry)


def _call(given: dict[str, Any], held: int, position: int) -> TraceSpan:
    call = nested(given)  # the table that people download has dotted columns, such as `inputs.messages`
    inputs, output = as_object(parsed(call.get("inputs"))), parsed(call.get("output"))
    op = str(call.get("op_name"))
    name = op.rsplit("/op/", 1)[-1].partition(":")[0]
    problem = as_text(call.get("exception"))
    answer = as_object(output)
    summary = as_object(parsed(call.get("summary")))
    used = next(iter(as_object(summary.get("usage")).items()), (None, None))
    messages = parsed(inputs.get("messages"))
    is_chat = isinstance(messages, list) and (isinstance(answer.get("choices"), list) or "model" in inputs)
    span = TraceSpan(
        trace_id=str(call.get("trace_id")),
        span_id=str(call.get("id")),
        parent_id=as_text(call.get("parent_id")),
        name=as_text(call.get("display_name")) or name,
        kind="chat" if is_chat else "other",
        start=moment(call.get("started_at")) or 0.0,
        end=moment(call.get("ended_at")) or 0.0,
        error=problem,
        error_type="Exception",
        scores=_scores(as_object(parsed(summary.get("weave"))).get("feedback")),
        held=held,
        position=position,
    )
    if is_chat:
        span.model = as_text(answer.get("model")) or as_text(inputs.get("model"))
        span.asked = part_messages(messages)
        choices = [as_object(choice) for choice in as_list(answer.get("choices"))]
        span.answered = [as_object(choice.get("message")) for choice in choices[:1]] or _text(output)
        span.finish_reason = as_text(choices[0].get("finish_reason")) if choices else None
        span.usage = usage_of(answer.get("usage") or used[1])
        span.tools = tool_definitions(inputs.get("tools"))
    elif output is not None:
        span.result = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)
    return span


def _text(output: Any) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": output}] if isinstance(output, str) else []


def _scores(feedback: Any) -> dict[str, float]:
    """The numbers in the feedback of scorers, each under its scorer's name."""
    found: dict[str, float] = {}
    for given in map(as_object, as_list(feedback) or as_object(feedback).values()):
        kind = as_text(given.get("feedback_type")) or "score"
        payload = as_object(given.get("payload"))
        name = kind.rpartition(".")[2]
        value: Any = payload.get("output", payload.get("value"))
        if len(parts := as_object(value)) == 1:
            value = next(iter(parts.values()))
        if isinstance(value, bool):
            value = float(value)
        if (number := as_number(value)) is not None:
            found[name] = number
    return found
