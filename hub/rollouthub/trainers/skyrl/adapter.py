"""What the hub offers SkyRL."""

from collections.abc import Sequence

from rollouthub.rollout import Rollout
from rollouthub.trainers.skyrl.output import generator_output


class SkyRlAdapter:
    """SkyRL: see its page."""

    system = "SkyRL"
    packages = {"skyrl": "skyrl"}
    tested_with = "0.3.0"
    entries = ("rollouthub.trainers.skyrl.HubGenerator",)
    page = "docs/trainers/skyrl.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """What its generator answers."""
        return generator_output([(None, rollout) for rollout in rollouts])
