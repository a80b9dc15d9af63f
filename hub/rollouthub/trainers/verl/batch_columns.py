"""A batch's columns as veRL has them, in numpy: prompts padded on the left, responses on the right."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from rollouthub.export import NotTrainable, Refusal, RefusalReason, TaskReference, TrainingRow, seat_id
from rollouthub.rollout import Rollout

RewardPlace = Literal["verdict", "turns"]
"""Where rewards stand in a row, see `columns`."""


@dataclass(frozen=True, slots=True)
class BatchColumns:
    """The arrays that a `DataProto` is made of."""

    tensors: dict[str, Any]
    """NumPy arrays [row, tokens], by column name."""
    others: dict[str, Any]
    """NumPy arrays [row], by column name, mostly of objects."""


def columns(
    rows: Sequence[TrainingRow],
    pad_token_id: int,
    *,
    prompt_length: int | None = None,
    response_length: int | None = None,
    rewards: RewardPlace = "verdict",
    uids: Sequence[str] | None = None,
    vocabulary: int | None = None,
    logprobs: bool = True,
) -> BatchColumns:
    """The columns of rows, padded to the given lengths, by default those of the longest row.

    `rewards`: "verdict" puts the rollout's reward on the last token of each of its rows; "turns" puts the reward of
    each turn and span on its last token, and the return from there on the last token of the row's last turn. `uids` are
    the trainer's names of the rows' groups, by default the hub's group ids. `vocabulary` is the trainer's number of
    token ids. A rollout that forked has several rows; `compute_advantage` counts it once in its group. Where seats have
    names, `uid` names the row's, too, because each seat is compared with the same seat of the other members.

    Raises:
        NotTrainable: a row exceeds the given lengths, has another tokenizer, or lacks log-probabilities.
    """
    numpy: Any = import_module("numpy")
    prompts = max((row.segment.prompt_length for row in rows), default=0) if prompt_length is None else prompt_length
    answers = max((_answer(row) for row in rows), default=0) if response_length is None else response_length
    _check(rows, prompts, answers)
    count, width = len(rows), prompts + answers
    ids = numpy.full((count, width), pad_token_id, dtype=numpy.int64)
    attention = numpy.zeros((count, width), dtype=numpy.int64)
    mask = numpy.zeros((count, answers), dtype=numpy.int64)
    sampled = numpy.zeros((count, answers), dtype=numpy.float32)
    scores = numpy.zeros((count, answers), dtype=numpy.float32)
    for place, row in enumerate(rows):
        segment, begin, answer = row.segment, row.segment.prompt_length, _answer(row)
        cut = slice(prompts - begin, prompts + answer)
        ids[place, cut] = numpy.frombuffer(segment.token_ids.raw, dtype=numpy.int32)
        attention[place, cut] = 1
        mask[place, :answer] = numpy.frombuffer(segment.loss_mask.raw, dtype=numpy.int32)[begin:]
        sampled[place, :answer] = numpy.frombuffer(segment.logprobs.raw, dtype=numpy.float32)[begin:]
        scores[place, :answer] = token_rewards(row, rewards)
    _check_values(numpy, rows, ids, attention, sampled if logprobs else None, vocabulary)
    tensors = {
        "prompts": ids[:, :prompts],
        "responses": ids[:, prompts:],
        "response_mask": mask,
        "input_ids": ids,
        "attention_mask": attention,
        "position_ids": numpy.clip(numpy.cumsum(attention, axis=1) - 1, 0, None),
        "rm_scores": scores,
    }
    if logprobs:
        tensors["rollout_log_probs"] = sampled
    return BatchColumns(tensors, _others(numpy, rows, uids))


def _answer(row: TrainingRow) -> int:
    return len(row.segment.token_ids) - row.segment.prompt_length


def token_rewards(row: TrainingRow, rewards: RewardPlace) -> list[float]:
    """A row's rewards by token [response], placed as `columns` says."""
    if rewards == "verdict":
        return [0.0] * (_answer(row) - 1) + [row.reward]
    placed = row.process_rewards
    turns = list(row.segment.turn_ids)[row.segment.prompt_length :]
    final = max(turns)
    end = max(token for token, turn in enumerate(turns) if turn == final)
    own = math.fsum(value for value, turn in zip(placed, turns, strict=True) if turn == final)
    placed[end] += row.returns[final] - own
    return placed


def _check(rows: Sequence[TrainingRow], prompts: int, answers: int) -> None:
    models = {row.model for row in rows}
    if len(models) > 1:
        named = ", ".join(sorted(str(model) for model in models))
        raise NotTrainable(
            RefusalReason(Refusal.OTHER_TOKENIZER, f"one batch has ids of one tokenizer, and these are of {named}")
        )
    for row in rows:
        if row.segment.prompt_length > prompts or _answer(row) > answers:
            said = f"its row has {row.segment.prompt_length} prompt and {_answer(row)} response ids"
            raise NotTrainable(
                RefusalReason(Refusal.TOO_LONG, f"{said}, of {prompts} and {answers}", row.rollout.rollout_id)
            )


def _check_values(
    numpy: Any, rows: Sequence[TrainingRow], ids: Any, attention: Any, sampled: Any | None, vocabulary: int | None
) -> None:
    """Refuse a token id outside the trainer's vocabulary, and a missing log-probability."""
    if vocabulary is not None:
        for place in numpy.flatnonzero(((ids >= vocabulary) & (attention == 1)).any(axis=1))[:1]:
            why = f"it has token id {int(ids[place].max())}, and the trainer's tokenizer has {vocabulary}"
            raise NotTrainable(RefusalReason(Refusal.OTHER_TOKENIZER, why, rows[int(place)].rollout.rollout_id))
    if sampled is not None:
        for place in numpy.flatnonzero(~numpy.isfinite(sampled).all(axis=1))[:1]:
            why = "a sampled token has no log-probability"
            raise NotTrainable(RefusalReason(Refusal.NO_LOGPROBS, why, rows[int(place)].rollout.rollout_id))


def global_steps(rollout: Rollout) -> tuple[int | None, int | None]:
    """The policy versions of the oldest and the newest token; None if unknown, which records may store as -1."""
    oldest, newest = rollout.policy_version_min, rollout.policy_version_max
    return None if oldest is None or oldest < 0 else oldest, None if newest is None or newest < 0 else newest


def _others(numpy: Any, rows: Sequence[TrainingRow], uids: Sequence[str] | None) -> dict[str, Any]:
    def objects(values: Sequence[object]) -> Any:
        array = numpy.empty(len(values), dtype=object)
        array[:] = values
        return array

    groups = [row.rollout.group_id for row in rows] if uids is None else uids
    names = sorted({name for row in rows for name in row.components})
    steps = [global_steps(row.rollout) for row in rows]
    found = {
        "uid": objects([seat_id(uid, row.seat) for uid, row in zip(groups, rows, strict=True)]),
        "__num_turns__": numpy.array([len(row.rollout.turns) for row in rows], dtype=numpy.int32),
        "rollout_id": objects([row.rollout.rollout_id for row in rows]),
        "seat": objects([row.seat for row in rows]),
        "task": objects([str(TaskReference.of(row.rollout)) for row in rows]),
        "data_source": objects([row.rollout.environment.name for row in rows]),
        "row_index": numpy.array([row.index for row in rows], dtype=numpy.int32),
        "row_count": numpy.array([row.count for row in rows], dtype=numpy.int32),
        "min_global_steps": objects([first for first, _ in steps]),
        "max_global_steps": objects([last for _, last in steps]),
    }
    for name in names:
        # Environments differ in their components; one that a row's has not is no zero.
        values = [row.components.get(name, float("nan")) for row in rows]
        found[f"reward/{name}"] = numpy.array(values, dtype=numpy.float64)
    return found
