"""Environments that were installed from bundles: each with an interpreter of its own, and never run in the hub's.

Who keeps them is found through the entry point `rollouthub.installations`; the hub itself only starts them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from mcp_types import Tool

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.entry_points import ENVIRONMENTS, plugins
from rollouthub.plugins.lock import LockedEnvironment
from rollouthub.processes import HUB

INSTALLATIONS = "rollouthub.installations"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True)
class Installation:
    """One version of an environment, installed."""

    locked: LockedEnvironment
    """The exact bytes of it."""
    summary: str
    file: Path
    """Its env.toml, unpacked."""
    python: Path
    """The interpreter of its own virtual environment: what `{python}` stands for in its env.toml."""
    is_class: bool
    """Whether it is a Python class, which its own interpreter serves; a declared server is served by the hub's."""
    secrets: tuple[str, ...] = ()
    """The environment variables that its process is given, whatever they are named."""

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return self.locked.name

    @property
    def target(self) -> str:
        """`namespace/name@version`: as a run asks for exactly this one."""
        return f"{self.locked.name}@{self.locked.version}"

    @property
    def hub(self) -> tuple[str, ...]:
        """The command `hub` of the interpreter that may import what it is made of; it sees nothing of another's."""
        return (str(self.python), "-I", *HUB[-2:]) if self.is_class else HUB


class Installations(Protocol):
    """Who keeps installed environments."""

    def all(self) -> Sequence[Installation]:
        """Every version there is, by name and version.

        Raises:
            ConfigError: one is damaged.
        """
        ...

    def readable(self) -> tuple[Sequence[Installation], Sequence[ConfigError]]:
        """Every version that can be read, by name and version, and what is wrong with each of the others."""
        ...

    def find(self, target: str) -> Installation | None:
        """`namespace/name`, the highest version there is, or `namespace/name@version`; None where there is none.

        Raises:
            ConfigError: what is installed under the name is damaged.
        """
        ...

    def verify(self, installation: Installation) -> None:
        """See that what lies on the disk is what was installed.

        Raises:
            UsageError: it is not.
        """
        ...

    def admit(self, installation: Installation, tools: Sequence[Tool]) -> None:
        """See that it offers the tools it was published with.

        Raises:
            UsageError: it offers others.
        """
        ...


class _None:
    """Nothing is installed, because nothing here could install it."""

    def all(self) -> Sequence[Installation]:
        return ()

    def readable(self) -> tuple[Sequence[Installation], Sequence[ConfigError]]:
        return (), ()

    def find(self, target: str) -> Installation | None:
        return None

    def verify(self, installation: Installation) -> None:
        raise AssertionError("nothing is installed")

    def admit(self, installation: Installation, tools: Sequence[Tool]) -> None:
        raise AssertionError("nothing is installed")


def installations() -> Installations:
    """The installed environments of this user."""
    plugin = plugins(INSTALLATIONS).get("registry")
    if plugin is None or not plugin.is_shipped:
        return _None()
    try:
        return cast(Installations, plugin.entry.load()())
    except ImportError as error:
        raise ConfigError(f"installed environments cannot be looked up: {error}; reinstall rollouthub") from error


def find_installation(target: str) -> Installation | None:
    """The installed environment that a target of a run names; None where it names another kind.

    Raises:
        UnknownNameError: nothing of the name is there.
        ConfigError: it is also the name of a distribution in the hub's own interpreter, or the version is not there.
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
