"""Settings of a seat's player, for environments with several seats: `--seat buyer=hosted_vllm/a@react`."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import Field, JsonValue, field_validator, model_validator

from rollouthub.errors import ConfigError
from rollouthub.generation import Sampling
from rollouthub.models.config import ModelConfig, by_name
from rollouthub.plugins.entry_points import AGENTS, plugins
from rollouthub.values import Frozen

OF_A_RUN = "run:"
"""Prefix of the directory of an earlier run whose player takes the seat."""


SAMPLING = ("temperature", "top_p", "max_tokens", "seed")
"""Sampling settings of a seat that its option takes; files take the others, too."""


class PoolMember(Frozen):
    """One of the models that may play a seat: an older version of a policy, or another model."""

    model: ModelConfig | None = None
    version: int | None = Field(default=None, ge=0, lt=2**31)
    """The policy version that the model is, for the record."""
    run: str | None = None
    """Directory of an earlier run, whose model it is."""

    @model_validator(mode="after")
    def _has_one_source(self) -> "PoolMember":
        if (self.model is None) == (self.run is None):
            named = "neither a model nor a run" if self.run is None else "both a model and a run"
            raise ValueError(f"a member of a pool names {named}; name one of them")
        return self

    @field_validator("model", mode="before")
    @classmethod
    def _bare_name(cls, model: object) -> object:
        return by_name(model)[0] if isinstance(model, str) else model


class SeatConfig(Frozen):
    """The player of one seat; a field that is left out is the run's."""

    model: ModelConfig | None = None
    agent: str | None = None
    agent_set: dict[str, JsonValue] = {}
    """Settings of the agent."""
    sampling: Sampling = Sampling()
    """Sampling of this seat; overrides the run's."""
    run: str | None = None
    """Directory of an earlier run, whose model, agent and sampling play this seat."""
    pool: tuple[PoolMember, ...] = ()
    """Models of which one is drawn for each group of samples, such as older versions of the policy."""

    @field_validator("pool", mode="before")
    @classmethod
    def _members(cls, pool: object) -> object:
        if not isinstance(pool, Sequence) or isinstance(pool, str):
            return pool
        return [_member(each) if isinstance(each, str) else each for each in cast(Sequence[Any], pool)]

    @model_validator(mode="after")
    def _has_one_source(self) -> "SeatConfig":
        if self.pool and (self.model is not None or self.run is not None):
            raise ValueError("a seat with a pool is played by its members; leave model and run out, or add them to it")
        return self

    @field_validator("model", mode="before")
    @classmethod
    def _name_alone(cls, model: object) -> object:
        return by_name(model)[0] if isinstance(model, str) else model


def _member(text: str) -> dict[str, Any]:
    """Read `MODEL` or `run:DIRECTORY`."""
    return {"run": text.removeprefix(OF_A_RUN)} if text.startswith(OF_A_RUN) else {"model": text}


def seats_of(option: str, pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read `SEAT=MODEL`, `SEAT=MODEL@AGENT`, `SEAT=@AGENT`, `SEAT=run:DIRECTORY` and `SEAT.temperature=0.7` (any of
    `SAMPLING`) as settings by seat.

    Raises:
        ConfigError: a text has none of these forms, or one thing is given twice.
    """
    found: dict[str, dict[str, Any]] = {}
    given: set[str] = set()
    for pair in pairs:
        what, _, value = pair.partition("=")
        if not what or not value:
            raise ConfigError(
                f"{option} {pair!r} is not SEAT=MODEL or SEAT=MODEL@AGENT, for example {option} buyer=mock/solver@react"
            )
        if what in given:
            raise ConfigError(f"{option} names {what!r} twice")
        given.add(what)
        seat, _, setting = what.rpartition(".")
        if seat and setting in SAMPLING:
            found.setdefault(seat, {}).setdefault("sampling", {})[setting] = value
        else:
            found.setdefault(what, {}).update(player_of(value))
    return found


def player_of(text: str) -> dict[str, Any]:
    """Read `MODEL`, `MODEL@AGENT`, `@AGENT` or `run:DIRECTORY`. Text after the last `@` is an agent only if an agent
    has that name.
    """
    if text.startswith(OF_A_RUN):
        return {"run": text.removeprefix(OF_A_RUN)}
    model, at, agent = text.rpartition("@")
    if not at or (agent not in plugins(AGENTS) and model):
        return {"model": text}
    return {"agent": agent, **({"model": model} if model else {})}


def by_seat(seats: Any) -> Any:
    """A user's seats with each player that is given as one text read by `player_of`."""
    if not isinstance(seats, Mapping):
        return seats
    given = cast(Mapping[Any, Any], seats)
    return {seat: player_of(player) if isinstance(player, str) else player for seat, player in given.items()}
