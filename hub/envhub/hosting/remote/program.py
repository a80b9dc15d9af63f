"""`Program`: which process serves an environment."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from envhub.installed import Installation

_SECRET_NAME = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?(?:_?\d+)?$|_PWD$", re.IGNORECASE
)
_SERVE = ("serve-env", "--from-stdin")


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables an environment's process gets: everything but what is named like a secret."""
    return {name: value for name, value in environ.items() if not _SECRET_NAME.search(name)}


@dataclass(frozen=True)
class Program:
    """The hub that serves: its command, and what it is told besides its order."""

    command: tuple[str, ...] = (sys.executable, "-c", "from envhub.cli.main import main; main()", *_SERVE)
    name: str | None = None
    """What messages call the environment; None where its target says it."""
    python: str | None = None
    """What `{python}` stands for in an env.toml; None is the program's own interpreter."""
    secrets: tuple[str, ...] = ()
    """Variables that are named like secrets and passed on nevertheless: the environment says that it needs them."""

    @classmethod
    def of(cls, installation: Installation) -> "Program":
        """What serves an installed environment."""
        return cls(
            (*installation.hub, *_SERVE),
            installation.target,
            None if installation.is_class else str(installation.python),
            installation.secrets,
        )

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables that its process gets."""
        needed = {name: environ[name] for name in self.secrets if name in environ}
        return clean_environment(environ) | needed


OURS = Program()
"""This interpreter's own."""
