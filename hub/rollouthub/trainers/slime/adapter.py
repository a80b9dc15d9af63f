"""The adapter for slime: its name, packages, entries and documentation page."""

from collections.abc import Sequence

from rollouthub.rollout import Rollout
from rollouthub.trainers.pictures.shown_pictures import no_pictures
from rollouthub.trainers.slime.sample import samples_of
from rollouthub.trainers.systems import system_module


class SlimeAdapter:
    """The adapter for slime; `page` documents its use."""

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
        """Convert a group to slime samples, a list for each rollout."""
        no_pictures(rollouts)
        sample = system_module("slime.utils.types").Sample
        return [samples_of(rollout, sample()) for rollout in rollouts]
