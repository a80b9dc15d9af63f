"""Training rows as AReaL's trajectories: tensors of batch size one."""

from collections.abc import Mapping, Sequence
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
    """A row as plain lists [token], and its reward.

    Turns are numbered within the row, as AReaL's advantages by turn want them. The reward is the return at the row's
    first turn: with a discount, what the verdict is worth there, as AReaL's own workflow of several turns has it.
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
    """The columns as tensors [1, token], the reward [1]."""
    torch: Any = import_module("torch")
    return {name: torch.tensor([columns[name]], dtype=getattr(torch, kind)) for name, kind in _TYPES.items()}


def trajectory(rows: Sequence[TrainingRow]) -> dict[str, Any]:
    """A rollout's rows as AReaL takes them: one as it is, several padded to one length by AReaL itself."""
    made = [as_tensors(row_columns(row)) for row in rows]
    if len(made) == 1:
        return made[0]
    data: Any = system_module("areal.utils.data")
    return data.concat_padded_tensors(made)
