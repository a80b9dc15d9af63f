"""The adapter for verl-agent: its name, packages, entries and documentation page."""

from collections.abc import Sequence

from rollouthub.rollout import Rollout
from rollouthub.trainers.verl_agent.steps import step_rows


class VerlAgentAdapter:
    """The adapter for verl-agent; `page` documents its use."""

    system = "verl-agent"
    packages = {"agent_system": None}
    tested_with = "d0b9724"
    entries = (
        "rollouthub.trainers.verl_agent.make_envs",
        "rollouthub.trainers.verl_agent.HubEnvironmentManager",
    )
    page = "docs/trainers/verl-agent.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Convert rollouts to step rows, one for each turn."""
        return [row for rollout in rollouts for row in step_rows(rollout)]
