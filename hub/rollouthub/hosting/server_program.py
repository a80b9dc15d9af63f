"""`ServerProgram`: the command that serves an environment."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rollouthub.hosting.wall.view import View
from rollouthub.hosting.wall.wall import Wall
from rollouthub.plugins.installed import Installation
from rollouthub.processes import HUB, clean_environment, strangers_environment
from rollouthub.protocols import EnvironmentInfo

_SERVE = ("serve-env", "--from-stdin")
"""The command's old name: an installed environment may be served by an older version of the hub, which knows only
this one.
"""
BYTECODE = ".bytecode"
"""Folder in an environment's private home for the bytecode of its modules."""


@dataclass(frozen=True)
class ServerProgram:
    """The command that starts an environment server, and the variables that its process gets."""

    hub: tuple[str, ...] = HUB
    """The command that is `hub`."""
    words: tuple[str, ...] = _SERVE
    """What `hub` is to do."""
    name: str | None = None
    """The environment's name in messages; None to use the served target."""
    python: str | None = None
    """The interpreter that `{python}` stands for in an env.toml; None is the one that runs the server."""
    secrets: tuple[str, ...] = ()
    """Variables that look like secrets but are passed on, because the environment declares that it needs them."""
    is_strangers: bool = False
    """Whether the environment was installed from a bundle: it then gets fewer variables."""
    wall: Wall | None = None
    """The wall around the server's process; None for a plain process."""
    view: View | None = None
    """What the server sees behind its wall."""

    @classmethod
    def of(cls, installation: Installation) -> "ServerProgram":
        """The program that serves an installed environment."""
        return cls(
            installation.hub,
            name=installation.target,
            python=None if installation.is_class else str(installation.python),
            secrets=installation.secrets,
            is_strangers=True,
        )

    @property
    def command(self) -> tuple[str, ...]:
        """The command that starts it."""
        return (*self.hub, *self.words)

    def walled(self, wall: Wall | None, view: View) -> "ServerProgram":
        """The same program behind a wall, unless that is None."""
        if wall is None:
            return self
        hub = self.hub
        if self.python is None:
            # Its own interpreter cannot keep bytecode beside its modules, which are read-only.
            hub = (hub[0], "-X", f"pycache_prefix={view.home / BYTECODE}", *hub[1:])
        return replace(self, hub=hub, wall=wall, view=view)

    def informed(self, info: EnvironmentInfo) -> EnvironmentInfo:
        """A server's description of its environment, with what this hub knows of the wall around it."""
        if self.wall is None or self.view is None:
            return info.model_copy(update={"isolation": "process", "openings": ()})
        return info.model_copy(update={"isolation": self.wall.kind, "openings": self.view.openings})

    def declared(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables that the environment declares that it needs."""
        return {name: environ[name] for name in self.secrets if name in environ}

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables that the server's process gets without a wall."""
        return (strangers_environment if self.is_strangers else clean_environment)(environ) | self.declared(environ)


OURS = ServerProgram()
"""The program that serves an environment with this interpreter."""
