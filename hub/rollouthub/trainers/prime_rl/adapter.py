"""The adapter for prime-rl: its name, packages, entries and documentation page."""

from collections.abc import Sequence

from rollouthub.export import group_rows
from rollouthub.rollout import Rollout
from rollouthub.trainers.prime_rl.training_samples import samples_of


class PrimeRlAdapter:
    """The adapter for prime-rl; `page` documents its use."""

    system = "prime-rl"
    packages = {"prime_rl": None}
    tested_with = "559b44772"
    entries = ("rollouthub.trainers.prime_rl.samples_of",)
    page = "docs/trainers/prime-rl.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Convert a group to `TrainingSample`s, one for each training row, with advantages around the group's mean."""
        return samples_of(group_rows(rollouts, "mean"))
