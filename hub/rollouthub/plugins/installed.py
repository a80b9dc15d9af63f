"""Environments that were installed from bundles: each has its own interpreter and never runs in the hub's process.

The entry point `rollouthub.installations` names the class that manages them; the hub itself only starts them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.entry_points import ENVIRONMENTS, plugins
from rollouthub.plugins.lock import LockedEnvironment
from rollouthub.processes import HUB

if TYPE_CHECKING:
    from mcp_types import Tool

INSTALLATIONS = "rollouthub.installations"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True)
class Installation:
    """One installed version of an environment."""

    locked: LockedEnvironment
    """The lock entry of this version: its digests and its dependencies."""
    summary: str
    file: Path
    """The path of its unpacked env.toml."""
    python: Path
    """The interpreter of its own virtual environment; replaces `{python}` in its env.toml."""
    is_class: bool
    """Whether the environment is a Python class, which its own interpreter serves. The hub's interpreter serves a
    declared server.
    """
    secrets: tuple[str, ...] = ()
    """Names of the environment variables that are passed to its process."""
    needs_no_wall: bool = False
    """Whether its user said that just this version needs no wall (`hub trust add NAME`)."""

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return self.locked.name

    @property
    def target(self) -> str:
        """`namespace/name@version`: the target of a run that selects exactly this version."""
        return f"{self.locked.name}@{self.locked.version}"

    @property
    def hub(self) -> tuple[str, ...]:
        """The `hub` command that serves the environment: run by its own interpreter for a class, by the hub's for a
        declared server.
        """
        return (str(self.python), "-I", *HUB[-2:]) if self.is_class else HUB


class Installations(Protocol):
    """Looks up installed environments and checks them."""

    def all(self) -> Sequence[Installation]:
        """Return every installed version, sorted by name and version.

        Raises:
            ConfigError: an installation is damaged.
        """
        ...

    def readable(self) -> tuple[Sequence[Installation], Sequence[ConfigError]]:
        """Return every readable version, sorted by name and version, and one error for each damaged installation."""
        ...

    def find(self, target: str) -> Installation | None:
        """Return the version that a target names: `namespace/name@version`, or the highest version for
        `namespace/name`; None where it is not installed.

        Raises:
            ConfigError: the installation under that name is damaged.
        """
        ...

    def verify(self, installation: Installation) -> None:
        """Check that the files on disk are unchanged since the installation.

        Raises:
            UsageError: a file has changed.
        """
        ...

    def admit(self, installation: Installation, tools: "Sequence[Tool]") -> None:
        """Check that the environment offers the tools it was published with.

        Raises:
            UsageError: it offers different tools.
        """
        ...


class _None:
    """The empty `Installations`, for a hub that has no registry client registered."""

    def all(self) -> Sequence[Installation]:
        return ()

    def readable(self) -> tuple[Sequence[Installation], Sequence[ConfigError]]:
        return (), ()

    def find(self, target: str) -> Installation | None:
        return None

    def verify(self, installation: Installation) -> None:
        raise AssertionError("nothing is installed")

    def admit(self, installation: Installation, tools: "Sequence[Tool]") -> None:
        raise AssertionError("nothing is installed")


def installations() -> Installations:
    """Return the lookup of the environments that this user installed."""
    plugin = plugins(INSTALLATIONS).get("registry")
    if plugin is None or not plugin.is_shipped:
        return _None()
    try:
        return cast(Installations, plugin.entry.load()())
    except ImportError as error:
        raise ConfigError(f"installed environments cannot be looked up: {error}; reinstall rollouthub") from error


def find_installation(target: str) -> Installation | None:
    """Return the installed environment that a run's target names; None where the target is of another kind.

    Raises:
        UnknownNameError: nothing is installed or registered under the name.
        ConfigError: a distribution in the hub's own interpreter registers the same name, or the version is not
        installed.
    """
    name, at, wanted = target.partition("@")
    if not _NAME.fullmatch(name):
        return None
    if at and not wanted:
        raise ConfigError(
            f"{target!r} names no version; write {name}@1.2.3, or {name} for the highest that is installed"
        )
    known = installations()
    installation = known.find(target)
    plugin = plugins(ENVIRONMENTS).get(name)
    if installation is not None and plugin is not None:
        raise ConfigError(
            f"{name!r} is installed from {installation.locked.source} and also registered by the distribution "
            f"{plugin.distribution!r} in the hub's own interpreter; remove one: `hub remove {name}` or "
            f"`pip uninstall {plugin.distribution}`"
        )
    if installation is None and plugin is None and not Path(target).exists():
        readable, _ = known.readable()
        if at:
            there = ", ".join(each.locked.version for each in readable if each.name == name) or "no version of it"
            raise ConfigError(f"{target} is not installed (here is {there}); `hub install {target}`")
        names = {*plugins(ENVIRONMENTS), *(each.name for each in readable)}
        raise UnknownNameError("environment", name, names, f"`hub install {name}` installs it from a registry")
    return installation
