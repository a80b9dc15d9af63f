"""`CheckRequest`: which tasks, configuration and checks one `hub check` runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from rollouthub.hosting.wall.wall import WallChoice

LIMIT = 8


@dataclass(frozen=True)
class CheckRequest:
    """The options of one check."""

    split: str | None = None
    """Name of the split; None for the environment's first."""
    limit: int = LIMIT
    """Number of tasks."""
    seed: int = 0
    settings: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    roles: Mapping[str, str] = field(default_factory=dict[str, str])
    """Role → name of the model that plays it."""
    only: tuple[str, ...] = ()
    """Names of the checks to run; empty for all."""
    wall: WallChoice = "auto"
    """The wall around an installed environment that is checked."""
