"""A recipe: the settings by which a data set is made of rollouts."""

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from rollouthub.authoring.rewards import GroupMethod
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.export.filters import Filters
from rollouthub.export.pairs import PairMethod

METHODS: tuple[GroupMethod, ...] = get_args(GroupMethod)
PAIRS: tuple[PairMethod, ...] = get_args(PairMethod)
MOST_PACKED = 2**24
"""Most tokens of a packed sequence."""
TooLong = Literal["refuse", "leave_out"]
"""What becomes of a rollout with more tokens than a packed sequence may have."""
TOO_LONG: tuple[TooLong, ...] = get_args(TooLong)

FORMAT_OPTIONS = frozenset(
    (
        "best",
        "pairs",
        "most_pairs",
        "margin",
        "threshold",
        "advantage",
        "incomplete",
        "untrainable",
        "all_attempts",
        "pack",
    )
)
"""The fields of a recipe that only some formats use."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of one exported data set."""

    format: str = "sft"
    """The name of an `ExportFormat`, built in or installed."""
    filters: Filters = field(default_factory=Filters)
    tokens: bool | None = None
    """Whether rows hold the engine's token ids; rollouts without are then left out. None is the format's default:
    `groups` and `atif` have them, other formats are text, which a trainer tokenises for the model that it trains.
    """
    seat: str | None = None
    """The seat whose conversation and rewards are used; by default the conversation of the seat that spoke first,
    and the rollout's reward. `groups` has every seat, each with its own reward.
    """
    best: int | None = None
    """Take only this many of each group, the best."""
    pairs: PairMethod | None = None
    """How `dpo` pairs the members of a group; by default the best with the worst."""
    most_pairs: int | None = None
    """Most pairs of a group; by default 1 with `best_worst`, unlimited with `all`."""
    margin: float | None = None
    """The least reward difference of a pair; by default any difference."""
    threshold: float | None = None
    """`kto` labels a rollout with this reward or more as good; by default one that its verifier passed."""
    advantage: GroupMethod | None = None
    """How `groups` computes advantages; by default `mean_std`."""
    incomplete: bool = False
    """Whether `groups` takes groups with members that are missing or must not be trained on."""
    untrainable: bool = False
    """Whether `atif` includes rollouts that must not be trained on, marked as such."""
    suspect: bool = False
    """Whether to take rollouts whose verifier gave a reason not to trust the reward."""
    all_attempts: bool = False
    """Whether `atif` includes attempts that later attempts replaced."""
    pack: int | None = None
    """Pack rows of token ids into sequences of at most this many tokens, see `Packing`; by default a row is a
    sequence.
    """
    too_long: TooLong | None = None
    """With `pack`, what becomes of a rollout with more tokens; by default it is an error."""
    mixed_models: bool = False
    """Whether text of several models may be in one data set."""

    def __post_init__(self) -> None:
        """Refuse invalid options.

        Raises:
            UnknownNameError: there is no such method.
            ConfigError: the value of an option is invalid.
        """
        if self.advantage is not None and self.advantage not in METHODS:
            raise UnknownNameError("method of advantages", self.advantage, METHODS)
        if self.pairs is not None and self.pairs not in PAIRS:
            raise UnknownNameError("way to pair", self.pairs, PAIRS)
        if self.too_long is not None and self.too_long not in TOO_LONG:
            raise UnknownNameError("way with what is too long", self.too_long, TOO_LONG)
        if self.too_long is not None and self.pack is None:
            raise ConfigError("too_long is about packed sequences: say how long they may be with pack")
        for name in ("best", "most_pairs", "pack"):
            if (count := getattr(self, name)) is not None and count < 1:
                raise ConfigError(f"{name} = {count} leaves nothing; 1 is the least")
        if self.pack is not None and self.pack > MOST_PACKED:
            raise ConfigError(f"pack = {self.pack} is longer than a sequence may be; {MOST_PACKED:,} is the most")
        for name in ("margin", "threshold"):
            if (bound := getattr(self, name)) is not None and not math.isfinite(bound):
                raise ConfigError(f"{name} = {bound} is no bound; give a number")
