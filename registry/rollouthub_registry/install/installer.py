"""`Installer`: creates virtual environments, resolves dependencies and installs them, with uv or else pip."""

import importlib.util
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from rollouthub.plugins.lock import LockedDependency
from rollouthub_registry.install.install_error import InstallRefused
from rollouthub_registry.install.venv_contents import VenvContents


class Installer(Protocol):
    """Resolves and installs distributions without running or building any."""

    @property
    def name(self) -> Literal["uv", "pip"]:
        """Name of the installer in records."""
        ...

    def create(self, venv: Path) -> None:
        """Create an empty virtual environment with the hub's own Python.

        Raises:
            InstallRefused: it cannot be created.
        """
        ...

    def resolve(self, wanted: VenvContents, venv: Path, scratch: Path) -> tuple[LockedDependency, ...]:
        """Resolve the requirements and those of the local wheels to wheels with hashes.

        Raises:
            InstallRefused: no versions are compatible, or a package exists only as source or at an address.
        """
        ...

    def install(
        self, wanted: VenvContents, dependencies: Sequence[LockedDependency], venv: Path, scratch: Path
    ) -> None:
        """Install exactly these packages.

        Raises:
            InstallRefused: no file of a package has one of its hashes.
        """
        ...

    def choose_one(self, requirement: str, scratch: Path) -> LockedDependency:
        """Resolve a requirement to one version of one distribution for any Python, with the hashes of its files.

        Raises:
            InstallRefused: there is no such version.
        """
        ...

    def unpack(self, wheel: LockedDependency, folder: Path, scratch: Path) -> None:
        """Put the files of one wheel into a new folder, whatever Python it is for.

        Raises:
            InstallRefused: no file has one of its hashes.
        """
        ...


def choose_installer(environ: Mapping[str, str]) -> Installer:
    """uv if it is installed with the hub or on the PATH, else pip.

    Raises:
        InstallRefused: neither is installed.
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
