"""The columns of data sets: names and kinds of values."""

from typing import Any, Literal

from rollouthub.rollout import Rollout

Kind = Literal["text", "whole", "small", "real", "truth", "ids", "reals", "texts", "json", "jsons"]
"""The kind of a column's values. `ids` and `reals` are packed numbers; `json` is an object and `jsons` a list of
objects, stored as JSON in tables.
"""
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
"""The columns that identify a row's origin. `token_exact`: every turn in the row has the token ids that its engine
read and sampled.
"""


def identity(rollout: Rollout, *, token_exact: bool) -> Row:
    """The values of the `IDENTITY` columns."""
    return {
        "run_id": rollout.run_id,
        "group_id": rollout.group_id,
        "environment": rollout.environment.name,
        "split": rollout.task.split,
        "task_id": rollout.task.id,
        "model": rollout.model,
        "token_exact": token_exact,
    }
