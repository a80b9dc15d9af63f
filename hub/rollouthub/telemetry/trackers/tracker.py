"""What draws curves must be: `Tracker`, the points it is given, and how one is found by its name."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.entry_points import plugins
from rollouthub.plugins.extras import pip_install

TRACKERS = "rollouthub.trackers"
"""Entry points of other distributions, each a `TrackerFactory` called `namespace/name`."""
Ending = Literal["finished", "interrupted", "failed"]
Setting = str | float | bool


@dataclass(frozen=True, slots=True)
class Point:
    """Figures at one step. A dataclass: a run makes hundreds, all inside one process."""

    step: int
    """Rollouts with a committed record so far, those from before a resume included."""
    time: float
    """Seconds since the epoch."""
    values: Mapping[str, float]
    """Name (`reward/gsm8k`, `seconds/model/p95` …) → figure."""


@dataclass(frozen=True)
class TrackedRun:
    """The run that is drawn."""

    run_id: str
    directory: Path
    settings: Mapping[str, Setting]
    """The resolved settings, flat (`sampling.temperature`); what may be a secret is left out."""
    step: int
    """Rollouts that were committed before this start; 0 of a new run."""

    @property
    def name(self) -> str:
        """What people call it."""
        return self.directory.absolute().name


class Tracker(Protocol):
    """Draws curves. Called from a worker thread, one call at a time: it may block, and it may fail."""

    def write(self, points: Sequence[Point]) -> None:
        """Draw further points, in order of their steps."""
        ...

    def end(self, ending: Ending, figures: Mapping[str, float]) -> None:
        """The run is over, and these are its last figures."""
        ...


TrackerFactory = Callable[[TrackedRun], AbstractContextManager[Tracker]]


@dataclass(frozen=True)
class _Ours:
    module: str
    needs: str | None = None
    """The package without which it cannot be used."""
    extra: str = ""


_OURS = {
    "tensorboard": _Ours("rollouthub.telemetry.trackers.tensorboard"),
    "wandb": _Ours("rollouthub.telemetry.trackers.wandb", "wandb", "wandb"),
    "mlflow": _Ours("rollouthub.telemetry.trackers.mlflow", "mlflow", "mlflow"),
}


def find_tracker(name: str) -> Callable[[], TrackerFactory]:
    """A tracker by its name, checked; what loads it is called later, where loading costs nobody time.

    Raises:
        UnknownNameError: nothing draws under this name.
        ConfigError: the package it needs is not installed.
    """
    if ours := _OURS.get(name):
        if ours.needs is not None and importlib.util.find_spec(ours.needs) is None:
            raise ConfigError(
                f"the tracker {name!r} needs the package {ours.needs!r}, which is not installed: "
                f"{pip_install(ours.extra)}, or leave it out (--no-track)"
            )
        return lambda: _loaded(import_module(ours.module).track)
    theirs = plugins(TRACKERS)
    if name not in theirs:
        raise UnknownNameError("tracker", name, [*_OURS, *theirs])
    return lambda: _loaded(theirs[name].entry.load())


def tracker_packages() -> dict[str, bool]:
    """The hub's own trackers, and whether each could be used here."""
    return {
        name: ours.needs is None or importlib.util.find_spec(ours.needs) is not None for name, ours in _OURS.items()
    }


def _loaded(factory: Any) -> TrackerFactory:
    return factory
