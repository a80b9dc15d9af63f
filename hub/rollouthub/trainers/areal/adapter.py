"""The adapter for AReaL: its name, packages, entries and documentation page."""

from collections.abc import Sequence

from rollouthub.export import training_rows
from rollouthub.rollout import Rollout
from rollouthub.trainers.areal.tensors import row_columns
from rollouthub.trainers.pictures.shown_pictures import no_pictures


class ArealAdapter:
    """The adapter for AReaL; `page` documents its use."""

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
        """Convert rollouts to AReaL's trajectory columns, one mapping for each training row."""
        no_pictures(rollouts)
        return [row_columns(row) for rollout in rollouts for row in training_rows(rollout)]
