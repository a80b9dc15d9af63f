"""Sections of an env.toml that describe an environment to people and to checks: its reward, its sandboxes, its
origin.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rollouthub.plugins.manifest.value_forms import Licence
from rollouthub.sandbox import Network, Resources
from rollouthub.values import Frozen

Determinism = Literal["full", "seeded", "none"]


class RewardSection(Frozen, defer_build=True):
    """`[reward]`: the range of the reward and its better end."""

    range: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest possible reward."""
    better: Literal["higher", "lower"] = "higher"
    """Whether a higher or a lower reward is better."""

    @model_validator(mode="after")
    def _holds(self) -> "RewardSection":
        low, high = self.range
        # NaN is below nothing; infinity would be no range.
        if not (float("-inf") < low < high < float("inf")):
            raise ValueError(f"`range` goes from the lowest to the highest reward; [{low:g}, {high:g}] does not")
        return self


class SandboxSection(Frozen, defer_build=True):
    """`[sandbox]`: where the environment's tools run. Every rollout records the sandbox settings that were in force."""

    images: tuple[Annotated[str, Field(min_length=1, max_length=400)], ...] = ()
    """Container images that the environment uses, each as NAME@sha256:DIGEST."""
    network: Network = "none"
    """The network that a sandbox can reach: `none`, or the container engine's bridge."""
    resources: Resources = Resources()
    """Limits on the resources of one sandbox."""


class AdoptedFrom(Frozen, defer_build=True):
    """The manifest's `[adopted_from]`: the work of others that the environment was made from."""

    source: Annotated[str, Field(min_length=1, max_length=400)]
    """Address of the original work, or a name under which it can be found."""
    revision: str | None = Field(default=None, min_length=1, max_length=100)
    """The commit or version of the original that was used."""
    license: Licence | None = None
    """The licence of the original, where it differs from the environment's."""
    changes: str | None = Field(default=None, min_length=1, max_length=1000)
    """The differences between this environment and the original."""
    unpromised: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=400)], ...], Field(max_length=40)] = ()
    """What the original's format, or this work in it, cannot promise: seeds, the same world twice, episodes side by
    side.
    """
