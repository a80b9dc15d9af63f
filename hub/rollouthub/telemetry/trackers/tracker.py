"""`Tracker`: the interface of an experiment tracker, the points it gets, and the lookup by name."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.entry_points import TRACKERS, Plugin, load_plugin, plugins
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
FactoryT = TypeVar("FactoryT", bound=Callable[..., Any])
_PACKAGE = "package"
"""The attribute of a factory in which `needs` writes."""


def needs(package: str) -> Callable[[FactoryT], FactoryT]:
    """Declare the package that one of the hub's own trackers imports when it is used; the extra that installs it has
    the same name.
    """

    def declaring(factory: FactoryT) -> FactoryT:
        vars(factory)[_PACKAGE] = package
        return factory

    return declaring


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
    if known[name].is_shipped and (package := _missing_package(known[name])):
        raise ConfigError(
            f"the tracker {name!r} needs the package {package!r}, which is not installed: "
            f"{pip_install(package)}, or leave it out (--no-track)"
        )
    return lambda: load_plugin(known[name])


def tracker_packages() -> dict[str, bool]:
    """The hub's own trackers by name, and whether the package of each is installed."""
    return {name: not _missing_package(plugin) for name, plugin in plugins(TRACKERS).items() if plugin.is_shipped}


def _missing_package(plugin: Plugin) -> str | None:
    """The package that a tracker declares, if it is not installed."""
    factory: Any = load_plugin(plugin)
    package: str | None = getattr(factory, _PACKAGE, None)
    return package if package is not None and importlib.util.find_spec(package) is None else None
