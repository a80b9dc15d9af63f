"""What the hub offers agent-lightning."""

from collections.abc import Sequence

from rollouthub.rollout import Rollout
from rollouthub.trainers.agent_lightning.events import replay_events


class AgentLightningAdapter:
    """agent-lightning: see its page."""

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
        """The events of each rollout."""
        return [replay_events(rollout) for rollout in rollouts]
