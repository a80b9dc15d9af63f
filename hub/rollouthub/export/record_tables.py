"""Records as rows of flat, typed columns, for Parquet and for tables in memory.

There are four tables: one row per rollout, per turn with its token ids, per tool call, or per training segment. Lists
of name and value are used instead of maps, because `datasets` does not support maps.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rollouthub.export.anchor_states import anchor_group
from rollouthub.export.record_columns import STAGES, Table
from rollouthub.export.segment import Segment, segments
from rollouthub.messages import Message
from rollouthub.rollout import Rollout, ToolCall, Turn, conversation_of
from rollouthub.score import Score
from rollouthub.store.notes import NO_NOTES, RolloutNotes, RunNotes
from rollouthub.values import Float32s, Int32s

Row = dict[str, Any]


def rows_of(rollout: Rollout, table: Table, notes: RunNotes | None = None) -> Iterator[Row]:
    """The rows that a record makes in a table; `notes` are those of its run."""
    if table == "rollouts":
        return _rollout_rows(rollout, NO_NOTES if notes is None else notes.of(rollout.rollout_id, rollout.attempt))
    return _ROWS[table](rollout)


def column_array(arrow: Any, rows: Sequence[Row], column: Any) -> Any:
    """One column of some rows as an Arrow array. Packed numbers are passed on as bytes, without conversion."""
    values = [row[column.name] for row in rows]
    packed = next((value for value in values if isinstance(value, Int32s | Float32s)), None)
    if packed is None:
        return arrow.array(values, type=column.type)
    offsets, raw = [0], bytearray()
    for value in values:
        raw += b"" if value is None else value.raw
        offsets.append(len(raw) // 4)
    numbers = arrow.Array.from_buffers(column.type.value_type, len(raw) // 4, [None, arrow.py_buffer(bytes(raw))])
    mask = arrow.array([value is None for value in values])
    return arrow.ListArray.from_arrays(arrow.array(offsets, arrow.int32()), numbers, type=column.type, mask=mask)


def _keys(rollout: Rollout) -> Row:
    score = rollout.score
    return {
        "run_id": rollout.run_id,
        "rollout_id": rollout.rollout_id,
        "group_id": rollout.group_id,
        "sample": rollout.sample,
        "attempt": rollout.attempt,
        "environment": rollout.environment.name,
        "split": rollout.task.split,
        "task_id": rollout.task.id,
        "outcome": rollout.outcome.value,
        "stop": rollout.stop.value,
        "reward": rollout.reward,
        "passed": None if score is None else score.passed,
    }


def _rollout_rows(rollout: Rollout, notes: RolloutNotes) -> Iterator[Row]:
    score, verifier = rollout.score, rollout.score.verifier if rollout.score else None
    costs = [turn.cost for turn in rollout.turns if turn.cost is not None]
    components = score.components if score else {}
    yield {
        **_keys(rollout),
        "task_digest": rollout.task.digest,
        "source": rollout.task.source,
        "seed": rollout.seed,
        "environment_version": rollout.environment.version,
        "environment_digest": rollout.environment.digest,
        "environment_bundle": rollout.environment.bundle,
        "environment_dependencies": rollout.environment.dependencies,
        "agent": rollout.agent.name,
        "agent_version": rollout.agent.version,
        "model": rollout.model,
        "components": [{"name": name, "value": c.value, "weight": c.weight} for name, c in components.items()],
        "metrics": [{"name": name, "value": value} for name, value in (score.metrics if score else {}).items()],
        "suspect": score.suspect if score else None,
        "feedback": score.feedback if score else None,
        "verifier": verifier and verifier.name,
        "verifier_version": verifier and verifier.version,
        "verifier_digest": verifier and verifier.digest,
        "answer": rollout.answer,
        "messages": [_message(message) for message in conversation_of(rollout)],
        "turns": len(rollout.turns),
        "tool_calls": sum(len(turn.tool_calls) for turn in rollout.turns),
        "prompt_tokens": sum(turn.usage.prompt_tokens for turn in rollout.turns),
        "output_tokens": sum(turn.usage.output_tokens for turn in rollout.turns),
        "cost": sum(costs) if costs else None,
        "started_at": round(rollout.started_at * 1e6),
        **{f"{stage}_seconds": getattr(rollout.timings, stage) for stage in STAGES},
        "faults": [fault.model_dump(include={"boundary", "phase", "type", "message"}) for fault in rollout.faults],
        "isolation": rollout.isolation,
        "sandboxes": [f"{ref.provider}/{ref.walls}/{ref.profile}" for ref in rollout.sandboxes],
        "policy_version_min": rollout.policy_version_min,
        "policy_version_max": rollout.policy_version_max,
        "trainable": rollout.trainable,
        "trainable_reason": rollout.trainable_reason,
        "gaps": list(rollout.gaps),
        "notes": {**notes.as_json(), "turns": _noted_turns(notes)} if notes else None,
    }


def _noted_turns(notes: RolloutNotes) -> list[Row]:
    """The notes on turns as a list, since columns have no maps."""
    return [{"turn": turn, **noted.as_json()} for turn, noted in notes.turns]


def _turn_rows(rollout: Rollout) -> Iterator[Row]:
    keys = _keys(rollout)
    for turn in rollout.turns:
        yield {**keys, **_turn(turn, rollout.score), "anchor_group": anchor_group(rollout, turn)}


def _turn(turn: Turn, score: Score | None) -> Row:
    return {
        "turn": turn.index,
        "parent_turn": turn.parent_turn,
        "seat": turn.agent,
        "messages": [_message(message) for message in turn.messages],
        "response": _message(turn.response),
        "finish_reason": turn.finish_reason,
        "turn_reward": turn.reward,
        "seat_reward": None if score is None else score.seat_rewards.get(turn.agent),
        "span_rewards": [
            span.model_dump(include={"start", "end", "reward", "unit"})
            for span in (() if score is None else score.span_rewards)
            if span.turn == turn.index
        ],
        "prompt_tokens": turn.usage.prompt_tokens,
        "output_tokens": turn.usage.output_tokens,
        "cost": turn.cost,
        "seconds": turn.seconds,
        "prompt_token_ids": turn.prompt_token_ids,
        "output_token_ids": turn.output_token_ids,
        "output_logprobs": turn.output_logprobs,
        "output_mask": turn.output_mask,
        "policy_version": turn.policy_version,
    }


def _tool_call_rows(rollout: Rollout) -> Iterator[Row]:
    keys = _keys(rollout)
    for turn in rollout.turns:
        for place, call in enumerate(turn.tool_calls):
            yield {**keys, "turn": turn.index, "seat": turn.agent, "call": place, **_call(call)}


def _call(call: ToolCall) -> Row:
    return {
        "name": call.name,
        "arguments": json.dumps(call.arguments, ensure_ascii=False),
        "result": "\n".join(getattr(block, "text", f"[{block.type}]") for block in call.result.content),
        "is_error": call.is_error,
        "started": call.started,
        "seconds": call.seconds,
        "bytes": call.bytes,
    }


def _segment_rows(rollout: Rollout) -> Iterator[Row]:
    keys = {**_keys(rollout), "trainable": rollout.trainable}
    for segment in segments(rollout):
        yield {**keys, **_segment(segment)}


def _segment(segment: Segment) -> Row:
    fork = segment.fork
    return {
        "seat": segment.agent,
        "prompt_length": segment.prompt_length,
        "token_ids": segment.token_ids,
        "loss_mask": segment.loss_mask,
        "logprobs": segment.logprobs,
        "turn_ids": segment.turn_ids,
        "versions": segment.versions,
        "fork": None if fork is None else fork.kind,
        "shared": None if fork is None else fork.shared,
        "dropped": None if fork is None else fork.dropped,
    }


_ROWS: dict[Table, Callable[[Rollout], Iterator[Row]]] = {
    "turns": _turn_rows,
    "tool_calls": _tool_call_rows,
    "segments": _segment_rows,
}


def _message(message: Message) -> Row:
    """A message as a row value, in the form that chat templates take."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_requests
    ]
    return {
        "role": message.role,
        "content": message.text,
        "reasoning_content": message.reasoning,
        "tool_calls": calls or None,
        "tool_call_id": message.tool_call_id,
    }
