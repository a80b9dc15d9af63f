"""The adapter for TRL: its name, packages, entries and documentation page."""

from collections.abc import Sequence

from rollouthub.rollout import Rollout
from rollouthub.trainers.trl.rollouts import columns


class TrlAdapter:
    """The adapter for TRL; `page` documents its use."""

    system = "TRL"
    packages = {"trl": "trl", "datasets": "datasets"}
    tested_with = "1.16.0"
    entries = (
        "rollouthub.trainers.trl.rollout_func",
        "rollouthub.trainers.trl.hub_reward",
        "rollouthub.trainers.trl.HubSpec",
        "rollouthub.trainers.trl.HubRolloutWorker",
    )
    page = "docs/trainers/trl.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Convert rollouts to a batch's columns, using the longest row of each rollout."""
        return columns(rollouts, "longest", 0)
