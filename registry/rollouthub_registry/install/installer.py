"""`Installer`: makes virtual environments, chooses dependencies and installs them; uv where there is one, or pip."""

import importlib.util
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from rollouthub.plugins.lock import LockedDependency
from rollouthub_registry.install.install_error import InstallRefused
from rollouthub_registry.install.venv_contents import VenvContents


class Installer(Protocol):
    """What installs; it runs nothing of what it installs, and builds nothing."""

    @property
    def name(self) -> Literal["uv", "pip"]:
        """As the record has it."""
        ...

    def create(self, venv: Path) -> None:
        """Make a virtual environment of the hub's own Python, without anything in it.

        Raises:
            InstallRefused: it cannot be made.
        """
        ...

    def resolve(self, wanted: VenvContents, venv: Path, scratch: Path) -> tuple[LockedDependency, ...]:
        """Choose all that is needed beside the wheels that are here: wheels alone, each with its hashes.

        Raises:
            InstallRefused: nothing fits together, or it is only to be had as source or at an address.
        """
        ...

    def install(
        self, wanted: VenvContents, dependencies: Sequence[LockedDependency], venv: Path, scratch: Path
    ) -> None:
        """Install just these.

        Raises:
            InstallRefused: one is not to be had with one of its hashes.
        """
        ...


def choose_installer(environ: Mapping[str, str]) -> Installer:
    """uv where it is installed with the hub or on the PATH, otherwise pip.

    Raises:
        InstallRefused: there is neither.
    """
    if (uv := _uv(environ)) is not None:
        from rollouthub_registry.install.uv_installer import Uv

        return Uv(uv, environ)
    if (pip := importlib.util.find_spec("pip")) is not None and pip.origin is not None:
        from rollouthub_registry.install.pip_installer import Pip

        return Pip(Path(pip.origin).parent, environ)
    raise InstallRefused("nothing here can install: there is neither uv nor pip; get uv, or `pip install uv`")


def _uv(environ: Mapping[str, str]) -> Path | None:
    try:
        from uv import find_uv_bin

        return Path(find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv", path=environ.get("PATH"))
        return Path(found) if found else None
