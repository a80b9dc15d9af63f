"""The adapter for agent-lightning: its name, packages, entries and documentation page."""

from collections.abc import Sequence

from rollouthub.rollout import Rollout
from rollouthub.trainers.agent_lightning.events import replay_events


class AgentLightningAdapter:
    """The adapter for agent-lightning 1.0; `page` documents its use."""

    system = "agent-lightning"
    packages = {}
    tested_with = "c632d8d"
    entries = (
        "rollouthub.trainers.agent_lightning.HubAgent",
        "rollouthub.trainers.agent_lightning.open_runner",
        "rollouthub.trainers.agent_lightning.post_replay",
    )
    page = "docs/trainers/agent-lightning.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Convert each rollout to its list of agent-lightning events."""
        return [replay_events(rollout) for rollout in rollouts]
