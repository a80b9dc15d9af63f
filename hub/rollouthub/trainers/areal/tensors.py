"""Training rows as AReaL's trajectories: tensors of batch size one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rollouthub.export import TrainingRow
from rollouthub.trainers.systems import system_module

_TYPES = {
    "input_ids": "int32",
    "loss_mask": "int32",
    "logprobs": "float32",
    "versions": "int32",
    "turn_ids": "int32",
    "attention_mask": "bool",
    "rewards": "float32",
}


def row_columns(row: TrainingRow) -> dict[str, Any]:
    """A training row as plain lists [token], and its reward.

    `turn_ids` number the turns within the row from 0, as AReaL's per-turn advantages require; tokens of no turn have
    -1. The reward is the return at the row's first turn: with a discount below 1, the discounted reward, as in AReaL's
    own multi-turn workflow.
    """
    segment, turns = row.segment, row.turns
    number = {turn: place for place, turn in enumerate(turns)}
    return {
        "input_ids": segment.token_ids.tolist(),
        "loss_mask": segment.loss_mask.tolist(),
        "logprobs": segment.logprobs.tolist(),
        "versions": segment.versions.tolist(),
        "turn_ids": [number.get(turn, -1) for turn in segment.turn_ids.tolist()],
        "attention_mask": [True] * len(segment.token_ids),
        "rewards": row.returns[turns[0]],
    }


def as_tensors(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the columns of one row to tensors of shape [1, token]; the reward has shape [1]."""
    torch: Any = import_module("torch")
    return {name: torch.tensor([columns[name]], dtype=getattr(torch, kind)) for name, kind in _TYPES.items()}


@dataclass(frozen=True, slots=True)
class Seen:
    """Picture inputs of the training rows of a vision-language policy."""

    mark: int
    """Id of the token that stands for an image patch."""
    pictures: Sequence[Mapping[str, Any]]
    """For each row, the model's image inputs (see `PromptPictures.tensors`)."""


def trajectory(rows: Sequence[TrainingRow], seen: Seen | None = None) -> dict[str, Any]:
    """A rollout's rows as one AReaL trajectory; AReaL's own function pads several rows to one length.

    With `seen`, every row has `multi_modal_input` and `mm_token_type_ids`, also a row without pictures, because AReaL
    requires equal keys in all trajectories.
    """
    made = [as_tensors(row_columns(row)) for row in rows]
    if seen is not None:
        for tensors, shown in zip(made, seen.pictures, strict=True):
            tensors["mm_token_type_ids"] = (tensors["input_ids"] == seen.mark).long()
            tensors["multi_modal_input"] = [dict(shown)]
    if len(made) == 1:
        return made[0]
    data: Any = system_module("areal.utils.data")
    return data.concat_padded_tensors(made)
