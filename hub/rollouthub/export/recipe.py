"""A recipe: which data set is made of rollouts, and how."""

import math
from dataclasses import dataclass, field
from typing import get_args

from rollouthub.authoring.rewards import GroupMethod
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.export.filters import Filters
from rollouthub.export.pairs import PairMethod

METHODS: tuple[GroupMethod, ...] = get_args(GroupMethod)
PAIRS: tuple[PairMethod, ...] = get_args(PairMethod)

FORMAT_OPTIONS = frozenset(
    ("best", "pairs", "most_pairs", "margin", "threshold", "advantage", "incomplete", "untrainable", "all_attempts")
)
"""Fields of a recipe that mean something to some formats alone."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is asked of a data set."""

    format: str = "sft"
    """The name of an `ExportFormat`, ours or an installed distribution's."""
    filters: Filters = field(default_factory=Filters)
    tokens: bool | None = None
    """Whether the engine's token ids are in the rows, and what lacks them is left out. None is what the format is for:
    `groups` and `atif` have them, the others are words, which a trainer tokenises for whatever model it trains."""
    seat: str | None = None
    """Whose conversation; by default the seat's that spoke first. `groups` has every seat's."""
    best: int | None = None
    """Only so many of each group, the best."""
    pairs: PairMethod | None = None
    """How `dpo` pairs a group; by default its best sample with its worst."""
    most_pairs: int | None = None
    """The most pairs of a group; by default 1 of best and worst, and no bound of all."""
    margin: float | None = None
    """The least difference of the rewards of a pair; any by default."""
    threshold: float | None = None
    """`kto` calls good what has this reward or more; by default what its verifier passed."""
    advantage: GroupMethod | None = None
    """How `groups` centres rewards; by default `mean_std`."""
    incomplete: bool = False
    """Whether `groups` takes groups of which members are missing or may not be learnt from."""
    untrainable: bool = False
    """Whether `atif` also shows what must not be learnt from, marked so."""
    suspect: bool = False
    """Whether rollouts are taken whose verifier gave a reason not to trust their reward."""
    all_attempts: bool = False
    """Whether `atif` also shows attempts that others took the place of."""
    mixed_models: bool = False
    """Whether words of several models may stand in one data set."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense together.

        Raises:
            UnknownNameError: there is no such method.
            ConfigError: the value of an option is none.
        """
        if self.advantage is not None and self.advantage not in METHODS:
            raise UnknownNameError("method of advantages", self.advantage, METHODS)
        if self.pairs is not None and self.pairs not in PAIRS:
            raise UnknownNameError("way to pair", self.pairs, PAIRS)
        for name in ("best", "most_pairs"):
            if (count := getattr(self, name)) is not None and count < 1:
                raise ConfigError(f"{name} = {count} leaves nothing; 1 is the least")
        for name in ("margin", "threshold"):
            if (bound := getattr(self, name)) is not None and not math.isfinite(bound):
                raise ConfigError(f"{name} = {bound} is no bound; give a number")
