"""The adapter for OpenRLHF: its name, packages, entries and documentation page."""

from collections.abc import Sequence

from rollouthub.rollout import Rollout
from rollouthub.trainers.openrlhf.executor import response_of


class OpenRlhfAdapter:
    """The adapter for OpenRLHF; `page` documents its use."""

    system = "OpenRLHF"
    packages = {"openrlhf": "openrlhf"}
    tested_with = "0.11.2"
    entries = (
        "rollouthub.trainers.openrlhf_agent.AgentExecutor",
        "rollouthub.trainers.openrlhf_reward.reward_func",
    )
    page = "docs/trainers/openrlhf.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Convert each rollout to the record that an OpenRLHF agent returns."""
        return [response_of(rollout, "", "") for rollout in rollouts]
