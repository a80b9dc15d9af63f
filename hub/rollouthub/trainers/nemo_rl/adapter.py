"""What the hub offers NeMo-RL."""

from collections.abc import Sequence

from rollouthub.rollout import Rollout
from rollouthub.trainers.nemo_rl.results import gym_result


class NemoRlAdapter:
    """NeMo-RL: see its page."""

    system = "NeMo-RL"
    packages = {"nemo_rl": None}
    tested_with = "7ea279abf"
    entries = (
        "rollouthub.trainers.nemo_rl.use_hub_gym",
        "rollouthub.trainers.nemo_rl.register",
    )
    page = "docs/trainers/nemo-rl.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """NeMo Gym's result of each rollout."""
        return [gym_result(rollout) for rollout in rollouts]
