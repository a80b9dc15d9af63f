"""Converts records to database rows and back: text as JSON, numbers as raw bytes, a shared prompt prefix stored
once.
"""

from collections.abc import Container, Iterable, Sequence
from typing import Any, cast

from rollouthub.rollout import Outcome, Rollout, Stop, Turn
from rollouthub.store.run_facts import AttemptSummary, LiveState
from rollouthub.store.sql_schema import LIVE_COLUMNS, SUMMARY_COLUMNS, TURN_BITS
from rollouthub.values import Float32s, Int32s

_ARRAYS = {"prompt_token_ids", "output_token_ids", "output_logprobs", "output_mask", "policy_versions"}
_TURNS = {"turns"}

_ROLLOUT_COLUMNS = ("id", *SUMMARY_COLUMNS, "body")
INSERT_ROLLOUT = (
    f"INSERT INTO rollouts ({', '.join(_ROLLOUT_COLUMNS)}) VALUES ({', '.join('?' * len(_ROLLOUT_COLUMNS))}) "
    "ON CONFLICT DO NOTHING"
)
SEQ, EFFECTIVE = _ROLLOUT_COLUMNS.index("seq"), _ROLLOUT_COLUMNS.index("effective")
INSERT_TURN = "INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
UPSERT_LIVE = f"INSERT OR REPLACE INTO live ({', '.join(LIVE_COLUMNS)}) VALUES ({', '.join('?' * len(LIVE_COLUMNS))})"

SELECT_SUMMARY = f"SELECT {', '.join(SUMMARY_COLUMNS)} FROM rollouts"
SELECT_LIVE = f"SELECT {', '.join(LIVE_COLUMNS)} FROM live"
SELECT_TURNS = "SELECT * FROM turns WHERE id >= ? AND id < ? ORDER BY id"

Row = Sequence[Any]
Chosen = Container[tuple[str, int]]
"""Rollout ids and attempts of the records that are wanted."""

_LARGEST = 2**63 - 1
"""Largest integer of a column; a backend may report larger token counts, which only the record's body then holds."""


def rollout_row(rollout: Rollout, row_id: int, seq: int, effective: int) -> list[Any]:
    """The summary row of an attempt, with its body. Values are plain `int`, `float` and `str`, which SQLite binds
    fastest.
    """
    prompt_tokens = output_tokens = tool_calls = 0
    cost: float | None = None
    for turn in rollout.turns:
        usage = turn.usage
        prompt_tokens += usage.prompt_tokens
        output_tokens += usage.output_tokens
        tool_calls += len(turn.tool_calls)
        if turn.cost is not None:
            cost = turn.cost if cost is None else cost + turn.cost
    task, timings, score = rollout.task, rollout.timings, rollout.score
    for call in (*rollout.role_calls, *(score.judge_calls if score is not None else ())):
        if call.cost is not None:
            cost = call.cost if cost is None else cost + call.cost
    passed = score.passed if score is not None else None
    fault = rollout.faults[0] if rollout.faults else None
    return [
        row_id,
        seq,
        rollout.rollout_id,
        rollout.group_id,
        rollout.environment.name,
        task.split,
        task.id,
        task.source,
        rollout.sample,
        rollout.attempt,
        effective,
        rollout.outcome.value,
        rollout.stop.value,
        score.reward if score is not None else None,
        None if passed is None else int(passed),
        len(rollout.turns),
        tool_calls,
        min(prompt_tokens, _LARGEST),
        min(output_tokens, _LARGEST),
        cost,
        timings.total,
        timings.queue,
        timings.setup,
        timings.agent,
        timings.model,
        timings.tool,
        timings.verify,
        timings.close,
        rollout.started_at,
        rollout.started_at + timings.total,
        None if fault is None else f"{fault.boundary}:{fault.type}",
        int(rollout.trainable),
        int(score is not None and score.suspect is not None),
        rollout.model_dump_json(exclude=_TURNS),
    ]


def turn_rows(turns: Iterable[Turn], row_id: int) -> list[Row]:
    """The rows of a record's turns. A prompt is stored as its difference from the parent's prompt and output ids."""
    rows: list[Row] = []
    seen: dict[int, tuple[int, Turn]] = {}
    for place, turn in enumerate(turns):
        prefix_turn: int | None = None
        length = 0
        prompt = None if turn.prompt_token_ids is None else turn.prompt_token_ids.raw
        if prompt is not None and turn.parent_turn is not None and turn.parent_turn in seen:
            base, parent = seen[turn.parent_turn]
            length = _shared(prompt, parent)
            if length:
                prefix_turn = base
        rows.append(
            (
                row_id << TURN_BITS | place,
                turn.model_dump_json(exclude=_ARRAYS),
                prefix_turn,
                length,
                prompt[4 * length :] if prompt is not None and length else prompt,
                None if turn.output_token_ids is None else turn.output_token_ids.raw,
                None if turn.output_logprobs is None else turn.output_logprobs.raw,
                None if turn.output_mask is None else turn.output_mask.raw,
                None if turn.policy_versions is None else turn.policy_versions.raw,
            )
        )
        seen[turn.index] = (place, turn)
    return rows


def _shared(prompt: bytes, parent: Turn) -> int:
    """Number of leading prompt ids that equal the parent's prompt and output ids."""
    asked, said = _raw(parent.prompt_token_ids), _raw(parent.output_token_ids)
    if prompt.startswith(asked) and prompt.startswith(said, len(asked)):
        return (len(asked) + len(said)) // 4
    return Int32s.from_bytes(prompt).shared_prefix(Int32s.from_bytes(asked + said))


def _raw(ids: Int32s | None) -> bytes:
    return b"" if ids is None else ids.raw


def mended(rollout: Rollout) -> Rollout:
    """The record with U+FFFD for every lone surrogate, which models and file names may contain and UTF-8 cannot
    hold.
    """
    fields = _mend(rollout.model_dump())
    return Rollout.model_validate({**fields, "gaps": (*fields["gaps"], "lone surrogates")})


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        items = cast(dict[Any, Any], value).items()
        return {_mend(key): _mend(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [_mend(item) for item in cast(Sequence[Any], value)]
    return value


def rollout_from(body: str, rows: Iterable[Row]) -> Rollout:
    """Rebuild a record exactly as it was added."""
    rollout = Rollout.model_validate_json(body)
    turns: list[Turn] = []
    for _, turn_body, prefix_turn, length, prompt, output, logprobs, mask, versions in rows:
        if prefix_turn is not None:
            base = turns[int(prefix_turn)]
            prompt = (_raw(base.prompt_token_ids) + _raw(base.output_token_ids))[: 4 * length] + prompt
        arrays = {
            "prompt_token_ids": None if prompt is None else Int32s.from_bytes(prompt),
            "output_token_ids": None if output is None else Int32s.from_bytes(output),
            "output_logprobs": None if logprobs is None else Float32s.from_bytes(logprobs),
            "output_mask": None if mask is None else Int32s.from_bytes(mask),
            "policy_versions": None if versions is None else Int32s.from_bytes(versions),
        }
        turns.append(Turn.model_validate_json(turn_body).model_copy(update=arrays))
    return rollout.model_copy(update={"turns": tuple(turns)})


def rollout_without_prompts(body: str, rows: Iterable[Row]) -> tuple[Rollout, tuple[int | None, ...]]:
    """Rebuild a record without its turns' prompt ids, whose total grows with the square of the turns; also return
    their numbers.
    """
    lengths: list[int | None] = []
    own: list[Row] = []
    for row_id, turn_body, _, length, prompt, *arrays in rows:
        lengths.append(None if prompt is None else int(length) + len(prompt) // 4)
        own.append((row_id, turn_body, None, 0, None, *arrays))
    return rollout_from(body, own), tuple(lengths)


_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_STOPS = {stop.value: stop for stop in Stop}
_OUTCOME, _STOP = SUMMARY_COLUMNS.index("outcome"), SUMMARY_COLUMNS.index("stop")
_BOOLEANS = tuple(SUMMARY_COLUMNS.index(name) for name in ("effective", "passed", "trainable", "suspect"))


def summary_from(row: Row) -> AttemptSummary:
    """A summary from the columns of `SELECT_SUMMARY`."""
    values = list(row)
    values[_OUTCOME], values[_STOP] = _OUTCOMES[values[_OUTCOME]], _STOPS[values[_STOP]]
    for place in _BOOLEANS:
        if values[place] is not None:
            values[place] = bool(values[place])
    return AttemptSummary(*values)


def live_row(state: LiveState) -> Row:
    """The row of a live state."""
    return (
        state.rollout_id,
        state.environment,
        state.task_id,
        state.sample,
        state.attempt,
        state.state,
        state.turn,
        state.output_tokens,
        state.updated_at,
    )
