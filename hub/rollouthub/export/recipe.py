"""A recipe: which data set is made of rollouts, and how."""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from rollouthub.authoring.rewards import GroupMethod
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.export.filters import Filters
from rollouthub.export.not_trainable import Need
from rollouthub.export.pairs import PairMethod

Format = Literal["sft", "dpo", "kto", "groups", "atif"]
FORMATS: tuple[Format, ...] = get_args(Format)
METHODS: tuple[GroupMethod, ...] = get_args(GroupMethod)
PAIRS: tuple[PairMethod, ...] = get_args(PairMethod)

_BELONGS = {
    "best": ("sft", "kto", "groups"),
    "pairs": ("dpo",),
    "most_pairs": ("dpo",),
    "margin": ("dpo",),
    "threshold": ("kto",),
    "advantage": ("groups",),
    "incomplete": ("groups",),
    "untrainable": ("atif",),
    "all_attempts": ("atif",),
}
"""Which formats an option means something to; the others are refused it."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is asked of a data set."""

    format: Format = "sft"
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
            UnknownNameError: there is no such format, or method.
            ConfigError: an option is not the format's, or its value is none.
        """
        if self.format not in FORMATS:
            raise UnknownNameError("export format", self.format, FORMATS)
        for name, formats in _BELONGS.items():
            if getattr(self, name) not in (None, False) and self.format not in formats:
                raise ConfigError(
                    f"{name} = {getattr(self, name)} means nothing to {self.format}; it is for {', '.join(formats)}"
                )
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
        if self.format == "groups" and self.tokens is False:
            raise ConfigError("groups are token ids with their rewards; for words take sft, dpo or kto")
        if self.mixed_models and self.has_tokens:
            raise ConfigError(
                "mixed_models is for words: token ids of two models mean different things; "
                "take --no-tokens, or export each run by itself"
            )

    @property
    def has_tokens(self) -> bool:
        """Whether token ids are in the rows."""
        return self.format in ("groups", "atif") if self.tokens is None else self.tokens

    @property
    def need(self) -> Need:
        """What a rollout must have to be taken."""
        if self.format == "groups":
            return "logprobs"
        return "tokens" if self.has_tokens and self.format != "atif" else "text"
