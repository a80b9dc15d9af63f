"""The adapter for SkyRL: its name, packages, entries and documentation page."""

from collections.abc import Sequence

from rollouthub.rollout import Rollout
from rollouthub.trainers.pictures.shown_pictures import no_pictures
from rollouthub.trainers.skyrl.output import generator_output


class SkyRlAdapter:
    """The adapter for SkyRL; `page` documents its use."""

    system = "SkyRL"
    packages = {"skyrl": "skyrl"}
    tested_with = "0.3.0"
    entries = ("rollouthub.trainers.skyrl.HubGenerator",)
    page = "docs/trainers/skyrl.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Convert a group to the output of a SkyRL generator."""
        no_pictures(rollouts)
        return generator_output([(None, rollout) for rollout in rollouts])
