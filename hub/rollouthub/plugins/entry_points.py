"""Names that distributions register as entry points, ours and third parties' alike; listing them imports nothing.

A bare name belongs to the hub; a name that another distribution registers has the form `namespace/name`.
"""

import sys
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import Distribution, EntryPoint, EntryPoints, distribution, entry_points
from pathlib import Path
from typing import Any

from rollouthub.errors import ConfigError, describe

ENVIRONMENTS, AGENTS = "rollouthub.environments", "rollouthub.agents"
ADAPTERS = "rollouthub.adapters"
"""Section of an env.toml → a function that makes an environment class from a manifest with that section. Its arguments
are the `Manifest`, the path of the manifest's file, and the path of the interpreter that replaces `{python}`.
"""
EXPORT_FORMATS = "rollouthub.export_formats"
"""Name → a class without constructor arguments that implements `ExportFormat`."""
JUDGES = "rollouthub.judges"
"""Name → a pydantic model of a judge's settings that implements `NamedJudge`."""
RUN_READERS = "rollouthub.run_readers"
"""Name → a class without constructor arguments that implements `RunFormat`."""
SANDBOXES = "rollouthub.sandboxes"
"""Name → a function without arguments that returns an async context manager, which yields a `SandboxProvider`."""
TRACKERS = "rollouthub.trackers"
"""Name → a `TrackerFactory`. The hub's own trackers are registered in this group, too."""
TRAINER_ADAPTERS = "rollouthub.trainer_adapters"
"""Name → a class without constructor arguments that implements `TrainerAdapter`."""
VIEWS = "rollouthub.views"
"""Name → a class without constructor arguments that implements `ReportView`."""
OURS = "rollouthub"


@dataclass(frozen=True)
class Plugin:
    """A registered name and the distribution that registered it."""

    name: str
    distribution: str
    entry: EntryPoint

    @property
    def is_shipped(self) -> bool:
        """Whether the hub's own distribution registers the plug-in."""
        return self.distribution == OURS

    @property
    def summary(self) -> str:
        """The summary line in the metadata of the plug-in's distribution; empty where it has none."""
        return (self.entry.dist.metadata["Summary"] if self.entry.dist else None) or ""

    @property
    def version(self) -> str:
        """The version of the plug-in's distribution; empty where that is not known."""
        return self.entry.dist.version if self.entry.dist else ""


def plugins(group: str) -> dict[str, Plugin]:
    """Return every plug-in of an entry-point group, sorted by name.

    Raises:
        ConfigError: two distributions register one name, or a distribution other than the hub registers a bare name.
    """
    found: dict[str, Plugin] = {}
    for entry in _registered(_path_as_it_is()).get(group, ()):
        distribution = "unknown" if entry.dist is None else _name_of(entry.dist)
        plugin = Plugin(entry.name, distribution, entry)
        other = found.get(entry.name)
        if other is not None and other.distribution != distribution:
            raise ConfigError(
                f"{entry.name!r} is claimed by two distributions, {other.distribution!r} and {distribution!r}; "
                "uninstall one of them"
            )
        if not plugin.is_shipped and "/" not in entry.name:
            raise ConfigError(
                f"distribution {distribution!r} registers {entry.name!r}; bare names are the hub's own, "
                f"its authors must call it 'namespace/{entry.name}'"
            )
        found[entry.name] = plugin
    return found


def shipped_plugins(group: str) -> dict[str, Plugin]:
    """The hub's own plug-ins of an entry-point group by name; it reads the metadata of no other distribution."""
    return {entry.name: Plugin(entry.name, OURS, entry) for entry in _shipped().select(group=group)}


def shipped_plugin(group: str, noun: str, name: str) -> Plugin:
    """One of the hub's own plug-ins.

    Raises:
        ConfigError: this installation does not register the name, because it was made from older code.
    """
    found = shipped_plugins(group).get(name)
    if found is None:
        raise ConfigError(
            f"this installation of {OURS} knows no {noun} {name!r}: it is older than its code; install it again"
        )
    return found


@cache
def _shipped() -> EntryPoints:
    return distribution(OURS).entry_points


@lru_cache(maxsize=1)
def _registered(path: tuple[tuple[str, int], ...]) -> dict[str, list[EntryPoint]]:
    """Return the hub's entry points of all installed distributions, by group, sorted by name.

    This reads a metadata file of every distribution. `path` is the cache key: when a folder of the import path changes,
    the files are read again.
    """
    everything = entry_points()
    return {
        group: sorted(everything.select(group=group), key=lambda entry: entry.name)
        for group in everything.groups
        if group.startswith(f"{OURS}.")
    }


@lru_cache(maxsize=256)
def _name_of(distribution: Distribution) -> str:
    return distribution.name  # parses all that it says of itself, every time


def _path_as_it_is() -> tuple[tuple[str, int], ...]:
    """The folders of the import path, each with its modification time in nanoseconds, 0 where it cannot be read."""
    return tuple((place, _changed_at(place)) for place in sys.path)


def _changed_at(place: str) -> int:
    try:
        return Path(place).stat().st_mtime_ns
    except OSError:
        return 0


def load_plugin(plugin: Plugin) -> Any:
    """Import and return the object that a plug-in's entry point names.

    Raises:
        ConfigError: the import failed.
    """
    try:
        return plugin.entry.load()
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{plugin.name!r} of distribution {plugin.distribution!r} ({plugin.entry.value}) could not be imported: "
            f"{describe(error)}"
        ) from error
