"""What the hub offers AReaL."""

from collections.abc import Sequence

from rollouthub.export import training_rows
from rollouthub.rollout import Rollout
from rollouthub.trainers.areal.tensors import row_columns


class ArealAdapter:
    """AReaL: see its page."""

    system = "AReaL"
    packages = {"areal": "areal"}
    tested_with = "1.0.4"
    entries = (
        "rollouthub.trainers.areal.HubWorkflow",
        "rollouthub.trainers.areal.HubAgent",
        "rollouthub.trainers.areal.online_player",
    )
    page = "docs/trainers/areal.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Its trajectories' columns, row by row."""
        return [row_columns(row) for rollout in rollouts for row in training_rows(rollout)]
