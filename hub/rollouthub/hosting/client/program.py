"""`ServerProgram`: which process serves an environment."""

from collections.abc import Mapping
from dataclasses import dataclass

from rollouthub.plugins.installed import Installation
from rollouthub.processes import HUB, clean_environment, strangers_environment

_SERVE = ("serve-env", "--from-stdin")
"""By its old name: an installed environment may be served by another version of the hub, which knows this one."""


@dataclass(frozen=True)
class ServerProgram:
    """The hub that serves: its command, and what it is told besides its order."""

    command: tuple[str, ...] = (*HUB, *_SERVE)
    name: str | None = None
    """What messages call the environment; None where its target says it."""
    python: str | None = None
    """What `{python}` stands for in an env.toml; None is the program's own interpreter."""
    secrets: tuple[str, ...] = ()
    """Variables that are named like secrets and passed on nevertheless: the environment says that it needs them."""
    is_strangers: bool = False
    """Whether the environment was installed, and so is shown less of the variables."""

    @classmethod
    def of(cls, installation: Installation) -> "ServerProgram":
        """What serves an installed environment."""
        return cls(
            (*installation.hub, *_SERVE),
            installation.target,
            None if installation.is_class else str(installation.python),
            installation.secrets,
            is_strangers=True,
        )

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables that its process gets."""
        needed = {name: environ[name] for name in self.secrets if name in environ}
        return (strangers_environment if self.is_strangers else clean_environment)(environ) | needed


OURS = ServerProgram()
"""This interpreter's own."""
