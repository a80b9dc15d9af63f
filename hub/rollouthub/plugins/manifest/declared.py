"""What an environment declares of itself, for people and gates: its reward, what it needs, where it is from."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rollouthub.frozen import Frozen
from rollouthub.plugins.manifest.value_forms import Licence
from rollouthub.sandbox import Network, Resources

Determinism = Literal["full", "seeded", "none"]


class RewardSection(Frozen, defer_build=True):
    """`[reward]`: what a reward may be."""

    range: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest there is."""
    better: Literal["higher", "lower"] = "higher"
    """Which end of the range is the good one."""

    @model_validator(mode="after")
    def _holds(self) -> "RewardSection":
        low, high = self.range
        # NaN is below nothing; infinity would be no range.
        if not (float("-inf") < low < high < float("inf")):
            raise ValueError(f"`range` goes from the lowest to the highest reward; [{low:g}, {high:g}] does not")
        return self


class SandboxSection(Frozen, defer_build=True):
    """`[sandbox]`: where its tools run. What was in force stands on every rollout."""

    images: tuple[Annotated[str, Field(min_length=1, max_length=400)], ...] = ()
    """Container images it takes, each as NAME@sha256:DIGEST."""
    network: Network = "none"
    """What its sandboxes can reach: nothing, or what the container engine's bridge leads to."""
    resources: Resources = Resources()
    """What one sandbox may use."""


class AdoptedFrom(Frozen, defer_build=True):
    """`[adopted_from]`: what it is made of, where somebody else made that."""

    source: Annotated[str, Field(min_length=1, max_length=400)]
    """An address, or a name that can be looked up."""
    revision: str | None = Field(default=None, min_length=1, max_length=100)
    """The commit or version that was taken."""
    license: Licence | None = None
    """Its own licence, where that is another."""
    changes: str | None = Field(default=None, min_length=1, max_length=1000)
    """What is done differently here."""
