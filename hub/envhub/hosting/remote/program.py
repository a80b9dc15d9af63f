"""`Program`: which process serves an environment."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from envhub.installed import Installation

_SECRET_NAME = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?(?:_?\d+)?$|_PWD$", re.IGNORECASE
)
_SECRET_PART = re.compile(
    r"(?:^|_)(?:API_?)?(?:KEY|TOKEN|SECRET|CREDENTIAL|PASS|PASSWD|PASSWORD|PASSPHRASE|PW|PAT|AUTH|JWT|COOKIE|DSN|WEBHOOK)"
    r"S?\d*(?:_|$)",
    re.IGNORECASE,
)
_LOGIN_IN_ADDRESS = re.compile(r"://[^/\s@]+@")
_SERVE = ("serve-env", "--from-stdin")


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables an environment's process gets: everything but what is named like a secret."""
    return {name: value for name, value in environ.items() if not _SECRET_NAME.search(name)}


def strangers_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the process of somebody else's environment gets, before those that it declares.

    A part of a name that tells of a secret is enough, as in TOKEN_OF_LAB, and so is an address with a login in it, as
    of a database or a package index.
    """
    return {
        name: value
        for name, value in clean_environment(environ).items()
        if not _SECRET_PART.search(name) and not _LOGIN_IN_ADDRESS.search(value)
    }


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
    is_strangers: bool = False
    """Whether the environment was installed, and so is shown less of the variables."""

    @classmethod
    def of(cls, installation: Installation) -> "Program":
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


OURS = Program()
"""This interpreter's own."""
