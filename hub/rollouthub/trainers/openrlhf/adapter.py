"""What the hub offers OpenRLHF."""

from collections.abc import Sequence

from rollouthub.rollout import Rollout
from rollouthub.trainers.openrlhf.executor import response_of


class OpenRlhfAdapter:
    """OpenRLHF: see its page."""

    system = "OpenRLHF"
    packages = {"openrlhf": "openrlhf"}
    tested_with = "0.11.2"
    entries = (
        "rollouthub.trainers.openrlhf_agent.AgentExecutor",
        "rollouthub.trainers.openrlhf_reward.reward_func",
    )
    page = "docs/trainers/openrlhf.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Its agent's record of each rollout."""
        return [response_of(rollout, "", "") for rollout in rollouts]
