"""The adapter for NeMo-RL: its name, packages, entries and documentation page."""

from collections.abc import Sequence

from rollouthub.rollout import Rollout
from rollouthub.trainers.nemo_rl.results import gym_result


class NemoRlAdapter:
    """The adapter for NeMo-RL; `page` documents its use."""

    system = "NeMo-RL"
    packages = {"nemo_rl": None}
    tested_with = "7ea279abf"
    entries = (
        "rollouthub.trainers.nemo_rl.use_hub_gym",
        "rollouthub.trainers.nemo_rl.register",
    )
    page = "docs/trainers/nemo-rl.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Convert each rollout to a NeMo Gym result."""
        return [gym_result(rollout) for rollout in rollouts]
