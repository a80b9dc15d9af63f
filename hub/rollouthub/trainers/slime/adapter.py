"""What the hub offers slime."""

from collections.abc import Sequence

from rollouthub.rollout import Rollout
from rollouthub.trainers.slime.sample import samples_of
from rollouthub.trainers.systems import system_module


class SlimeAdapter:
    """slime: see its page."""

    system = "slime"
    packages = {"slime": None}
    tested_with = "624b824a8"
    entries = (
        "rollouthub.trainers.slime.generate",
        "rollouthub.trainers.slime.generate_rollout",
        "rollouthub.trainers.slime.reward",
        "rollouthub.trainers.slime.keep_group",
        "rollouthub.trainers.slime.post_process_rewards",
    )
    page = "docs/trainers/slime.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Its samples of each rollout."""
        sample = system_module("slime.utils.types").Sample
        return [samples_of(rollout, sample()) for rollout in rollouts]
