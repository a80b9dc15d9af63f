"""`Tracker`: the interface of an experiment tracker, the points it gets, and the lookup by name."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.entry_points import TRACKERS, load_plugin, plugins
from rollouthub.plugins.extras import pip_install

Ending = Literal["finished", "interrupted", "failed"]
Setting = str | float | bool


@dataclass(frozen=True, slots=True)
class Point:
    """Figures of a run at one step."""

    step: int
    """How many rollouts have a committed record so far, including those from before a resumption."""
    time: float
    """Unix time in seconds."""
    values: Mapping[str, float]
    """The figures by name (`reward/gsm8k`, `seconds/model/p95` …)."""


@dataclass(frozen=True)
class TrackedRun:
    """The description of a run for trackers."""

    run_id: str
    directory: Path
    settings: Mapping[str, Setting]
    """The resolved settings, flat (`sampling.temperature`), without those that may be secret."""
    step: int
    """How many rollouts were committed before this start; 0 for a new run."""

    @property
    def name(self) -> str:
        """The run's display name."""
        return self.directory.absolute().name


class Tracker(Protocol):
    """Records curves. It is called from a worker thread, one call at a time, so it may block and may raise."""

    def write(self, points: Sequence[Point]) -> None:
        """Record further points, in order of their steps."""
        ...

    def end(self, ending: Ending, figures: Mapping[str, float]) -> None:
        """Record that the run is over, with its last figures."""
        ...


TrackerFactory = Callable[[TrackedRun], AbstractContextManager[Tracker]]


_NEEDS = {"mlflow": "mlflow", "wandb": "wandb"}
"""The hub's own trackers that need a package, by name; the extra that installs the package has the same name."""


def find_tracker(name: str) -> Callable[[], TrackerFactory]:
    """Look up a tracker by name and check its package. Returns a function that loads the tracker, to be called in a
    thread.

    Raises:
        UnknownNameError: no tracker is registered under this name.
        ConfigError: the package it needs is not installed.
    """
    known = plugins(TRACKERS)
    if name not in known:
        raise UnknownNameError("tracker", name, known)
    if not _has_its_package(name):
        raise ConfigError(
            f"the tracker {name!r} needs the package {_NEEDS[name]!r}, which is not installed: "
            f"{pip_install(name)}, or leave it out (--no-track)"
        )
    return lambda: load_plugin(known[name])


def tracker_packages() -> dict[str, bool]:
    """The hub's own trackers by name, and whether the package of each is installed."""
    return {name: _has_its_package(name) for name, plugin in plugins(TRACKERS).items() if plugin.is_shipped}


def _has_its_package(name: str) -> bool:
    return name not in _NEEDS or importlib.util.find_spec(_NEEDS[name]) is not None
