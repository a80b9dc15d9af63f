"""Columns of data sets: what they are called and what stands in them."""

from typing import Any, Literal

from rollouthub.rollout import Rollout

Kind = Literal["text", "whole", "small", "real", "truth", "ids", "reals", "texts", "json", "jsons"]
"""`ids` and `reals` are packed numbers; `json` is an object and `jsons` a list of them, which tables keep as JSON."""
Columns = list[tuple[str, Kind]]
Row = dict[str, Any]

IDENTITY: Columns = [
    ("run_id", "text"),
    ("group_id", "text"),
    ("environment", "text"),
    ("split", "text"),
    ("task_id", "text"),
    ("model", "text"),
    ("token_exact", "truth"),
]
"""Where a row comes from. `token_exact`: every turn in it has the ids that its engine read and sampled."""


def identity(rollout: Rollout, *, token_exact: bool) -> Row:
    """The values of `IDENTITY`."""
    return {
        "run_id": rollout.run_id,
        "group_id": rollout.group_id,
        "environment": rollout.environment.name,
        "split": rollout.task.split,
        "task_id": rollout.task.id,
        "model": rollout.model,
        "token_exact": token_exact,
    }
