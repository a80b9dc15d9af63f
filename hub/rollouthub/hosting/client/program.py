"""`ServerProgram`: the command that serves an environment."""

from collections.abc import Mapping
from dataclasses import dataclass

from rollouthub.plugins.installed import Installation
from rollouthub.processes import HUB, clean_environment, strangers_environment

_SERVE = ("serve-env", "--from-stdin")
"""The command's old name: an installed environment may be served by an older version of the hub, which knows only
this one.
"""


@dataclass(frozen=True)
class ServerProgram:
    """The command that starts an environment server, and the variables that its process gets."""

    command: tuple[str, ...] = (*HUB, *_SERVE)
    name: str | None = None
    """The environment's name in messages; None to use the served target."""
    python: str | None = None
    """The interpreter that `{python}` stands for in an env.toml; None is the one that runs the server."""
    secrets: tuple[str, ...] = ()
    """Variables that look like secrets but are passed on, because the environment declares that it needs them."""
    is_strangers: bool = False
    """Whether the environment was installed from a bundle: it then gets fewer variables."""

    @classmethod
    def of(cls, installation: Installation) -> "ServerProgram":
        """The program that serves an installed environment."""
        return cls(
            (*installation.hub, *_SERVE),
            installation.target,
            None if installation.is_class else str(installation.python),
            installation.secrets,
            is_strangers=True,
        )

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables that the server's process gets."""
        needed = {name: environ[name] for name in self.secrets if name in environ}
        return (strangers_environment if self.is_strangers else clean_environment)(environ) | needed


OURS = ServerProgram()
"""The program that serves an environment with this interpreter."""
