"""The adapter for veRL: its name, packages, entries and documentation page."""

from collections.abc import Sequence

from rollouthub.export import training_rows
from rollouthub.rollout import Rollout
from rollouthub.trainers.verl.batch import data_proto


class VerlAdapter:
    """The adapter for veRL; `page` documents its use."""

    system = "veRL"
    packages = {"verl": "verl"}
    tested_with = "0.9.1"
    entries = (
        "rollouthub.trainers.verl.HubAgentLoop",
        "rollouthub.trainers.verl.HubAgentLoopManager",
        "rollouthub.trainers.verl.HubAgentLoopManagerTQ",
        "rollouthub.trainers.verl.reward.compute_score",
    )
    page = "docs/trainers/verl.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Convert a group to one `DataProto`."""
        return data_proto([row for rollout in rollouts for row in training_rows(rollout)], pad_token_id=0)
