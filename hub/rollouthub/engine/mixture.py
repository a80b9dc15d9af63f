"""Several environments in one run by weight: how many tasks each gives, and which environment is next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollouthub.errors import ConfigError, UnknownNameError


def weights_of(option: str, pairs: Sequence[str]) -> dict[str, Any]:
    """Read `ENV=NUMBER` pairs as weights by environment.

    Raises:
        ConfigError: a pair has another form, or an environment is given twice.
    """
    weights: dict[str, Any] = {}
    for pair in pairs:
        name, equals, number = pair.rpartition("=")
        if not name or not equals or not number:
            raise ConfigError(f"{option} {pair!r} is not ENV=NUMBER, for example {option} arithmetic=3")
        if name in weights:
            raise ConfigError(f"{option} names {name!r} twice")
        weights[name] = number
    return weights


def check_weights(weights: Mapping[str, float], names: Sequence[str]) -> None:
    """Refuse weights of environments that the run does not have, and weights in a run of one environment.

    Raises:
        ConfigError: the run has only one environment.
        UnknownNameError: a name is no environment of this run.
    """
    if weights and len(names) == 1:
        raise ConfigError(f"weights mix several environments, and the run has one, {names[0]}; leave them out")
    for name in weights:
        if name not in names:
            raise UnknownNameError("environment of this run", name, names)


@dataclass(frozen=True)
class Share:
    """The part of an environment's tasks that a mixture plays."""

    size: int
    """Number of tasks in one epoch."""
    of: int
    """Number of tasks that the environment has."""

    def has(self, place: int, epoch: int = 0) -> bool:
        """Whether the task at index `place` is in an epoch's part. Each epoch starts where the previous one ended."""
        return (place - epoch * self.size) % self.of < self.size


def shares(counts: Mapping[str, int], weights: Mapping[str, float]) -> dict[str, Share]:
    """How many tasks each environment gives: proportional to the weights, and as many as the scarcest environment
    allows.

    Each environment that has tasks gives at least one.
    """
    unit = min((count / weights[name] for name, count in counts.items() if count), default=0.0)
    # A share that is a whole number but for rounding is that number.
    return {
        name: Share(min(count, max(1, int(unit * weights[name] + 1e-9))), count)
        for name, count in counts.items()
        if count
    }


class Turns:
    """A deterministic order in which each name comes up in proportion to its weight, spread as evenly as possible."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = dict(weights)
        self._credit = dict.fromkeys(weights, 0.0)

    def next(self) -> str:
        """The next name; at least one must be left."""
        for name, weight in self._weights.items():
            self._credit[name] += weight
        chosen = max(self._credit, key=lambda name: self._credit[name])
        self._credit[chosen] -= sum(self._weights.values())
        return chosen

    def leave(self, name: str) -> None:
        """Remove a name that has nothing left to give."""
        del self._weights[name], self._credit[name]
