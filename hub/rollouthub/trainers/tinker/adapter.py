"""The adapter for Tinker: its name, packages, entries and documentation page."""

from collections.abc import Sequence

from rollouthub.export import group_rows
from rollouthub.rollout import Rollout
from rollouthub.trainers.tinker.datums import datums_of


class TinkerAdapter:
    """The adapter for Tinker; `page` documents its use."""

    system = "Tinker"
    packages = {"tinker": "tinker", "tinker_cookbook": "tinker-cookbook"}
    tested_with = "0.38.0"
    entries = (
        "rollouthub.trainers.tinker.TinkerEngine",
        "rollouthub.trainers.tinker.datums_of",
        "rollouthub.trainers.tinker.HubDatasetBuilder",
    )
    page = "docs/trainers/tinker.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Convert a group to `Datum`s, one for each training row, with advantages around the group's mean."""
        return datums_of(group_rows(rollouts, "mean"))
