"""`CheckRequest`: which tasks, configuration and checks one `hub check` runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

LIMIT = 8


@dataclass(frozen=True)
class CheckRequest:
    """How an environment is checked."""

    split: str | None = None
    """None is its first."""
    limit: int = LIMIT
    """How many tasks."""
    seed: int = 0
    settings: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    roles: Mapping[str, str] = field(default_factory=dict[str, str])
    """Role → the name of the model that is asked."""
    only: tuple[str, ...] = ()
    """Names of checks; empty is all of them."""
