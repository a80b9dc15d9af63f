"""`ForeignHome`: virtual environments and unpacked wheels for foreign formats, each created once and shared.

No installed code runs here. A virtual environment is named by the digest of its pinned requirements and its
interpreter, a wheel by its hashes. Both appear at once, by a rename, under a lock between hubs.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rollouthub.plugins.lock import LockedDependency
from rollouthub.processes import PYTHON
from rollouthub.store.folders import remove_folder
from rollouthub_registry.install.install_error import InstallRefused
from rollouthub_registry.install.install_home import data_home, interpreter
from rollouthub_registry.install.installer import Installer, choose_installer
from rollouthub_registry.install.installer_process import run_installer
from rollouthub_registry.install.venv_contents import VenvContents
from rollouthub_registry.install.virtual_environment import check_distributions, settle

WAIT_SECONDS = 3600.0
"""Most seconds to wait for another hub that creates the same folder."""
_NEXT = "Nothing was left behind; start again when it can be had (UV_DEFAULT_INDEX and PIP_INDEX_URL name an index)."
_DIGITS = 24
_PYTHON = f"{sys.implementation.cache_tag}-{sys.platform}-{sys.base_prefix}"

_COMPILE = """\
import compileall, sys
partial, final = sys.argv[1:]
compileall.compile_dir(partial, quiet=2, workers=0, stripdir=partial, prependdir=final)
"""


def _silent(_: str) -> None:
    """A progress callback that does nothing."""


class ForeignHome:
    """A folder of the user with `venvs/DIGEST` and `wheels/DIGEST`."""

    def __init__(
        self, root: Path, *, environ: Mapping[str, str] = os.environ, installer: Installer | None = None
    ) -> None:
        self.root, self._environ, self._installer = root, environ, installer

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> "ForeignHome":
        """The user's folder: `$XDG_DATA_HOME/rollouthub/foreign`."""
        return cls(data_home(environ) / "foreign", environ=environ)

    def lock(self, requirements: Sequence[str], note: Callable[[str], None] = _silent) -> tuple[LockedDependency, ...]:
        """Resolve requirements with all their dependencies to wheels with hashes. Blocks for seconds.

        Raises:
            InstallRefused: no versions are compatible, a package exists only as source, or no index can be reached.
        """
        for text in requirements:
            _checked(text)
        if not requirements:
            return ()
        installer = self._chosen()
        note(f"choosing what {', '.join(requirements[:3])}{' …' if len(requirements) > 3 else ''} needs")
        with tempfile.TemporaryDirectory(prefix="rollouthub-lock-") as scratch:
            venv = Path(scratch) / "venv"
            installer.create(venv)
            return installer.resolve(VenvContents(requirements=tuple(requirements)), venv, Path(scratch))

    def python(self, dependencies: Sequence[LockedDependency], note: Callable[[str], None] = _silent) -> Path:
        """The interpreter of a virtual environment with exactly these distributions; created if need be. Blocks.

        Raises:
            InstallRefused: it cannot be created; nothing is left behind.
        """
        lines = sorted(f"{each.name}=={each.version} {' '.join(sorted(each.hashes))}" for each in dependencies)
        venv = self.root / "venvs" / _digest([_PYTHON, *lines])
        with self._making(venv) as partial:
            if partial is not None:
                installer = self._chosen()
                installer.create(partial)
                if dependencies:
                    note(f"installing {len(dependencies)} distributions with {installer.name}")
                    with tempfile.TemporaryDirectory(prefix="rollouthub-install-") as scratch:
                        installer.install(VenvContents(), dependencies, partial, Path(scratch))
                    check_distributions(partial, {each.name: each.version for each in dependencies})
                    settle(partial, venv)
                    self._compile(partial, venv, note)
        return interpreter(venv)

    def wheel(self, requirement: str) -> LockedDependency:
        """Resolve a requirement to one version of one distribution, with the hashes of its files. Blocks for seconds.

        The Python version that it asks for is ignored: its files are unpacked, and run in an environment that fits
        them.

        Raises:
            InstallRefused: there is no such version, or no index can be reached.
        """
        asked = _checked(requirement)
        if asked.marker is not None:
            raise InstallRefused(f"{requirement!r} depends on where it is asked; leave out what follows the semicolon")
        name = canonicalize_name(asked.name)
        with tempfile.TemporaryDirectory(prefix="rollouthub-lock-") as scratch:
            found = self._chosen().choose_one(requirement, Path(scratch))
        if canonicalize_name(found.name) != name:
            raise InstallRefused(f"{requirement!r} was asked for, and {found.name!r} {found.version!r} was given")
        return found

    def unpacked(self, wheel: LockedDependency, note: Callable[[str], None] = _silent) -> Path:
        """The folder with the files of one wheel, without its dependencies; downloaded if need be. Blocks.

        Raises:
            InstallRefused: it cannot be downloaded, or no file has one of its hashes; nothing is left behind.
        """
        folder = self.root / "wheels" / _digest([wheel.name, wheel.version, *sorted(wheel.hashes)])
        with self._making(folder) as partial:
            if partial is not None:
                note(f"fetching {wheel.name} {wheel.version}")
                with tempfile.TemporaryDirectory(prefix="rollouthub-install-") as scratch:
                    self._chosen().unpack(wheel, partial, Path(scratch))
                self._compile(partial, folder, note)
        return folder

    def _compile(self, partial: Path, final: Path, note: Callable[[str], None]) -> None:
        """Write the bytecode of all modules that this Python can read. It is parsed, and none of it is run.

        Where its processes run it is read-only: each would compile again whatever it imports.
        """
        note("compiling its modules")
        command = [*PYTHON, "-I", "-c", _COMPILE, partial, final]
        run_installer(command, partial, self._environ, "compiling its modules")

    def _chosen(self) -> Installer:
        return self._installer or choose_installer(self._environ)

    @contextmanager
    def _making(self, folder: Path) -> Generator[Path | None]:
        """A temporary folder that is renamed to the final one if the block succeeds; None if that exists already."""
        if folder.is_dir():
            yield None
            return
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{folder}.lock", timeout=WAIT_SECONDS):
                if folder.is_dir():
                    yield None
                    return
                partial = folder.with_name(f".{folder.name}.partial")
                remove_folder(partial)  # of a hub that was killed: who holds the lock is alone
                try:
                    yield partial
                    partial.rename(folder)
                except InstallRefused as error:
                    raise InstallRefused(f"{error}\n{_NEXT}") from error
                finally:
                    shutil.rmtree(partial, ignore_errors=True)
        except Timeout:
            raise InstallRefused(
                f"another process has been making {folder} for {WAIT_SECONDS:g} s; end it, then try again"
            ) from None
        except OSError as error:
            raise InstallRefused(
                f"{folder} cannot be made: {error.strerror or error}; free room, or set"
                " XDG_DATA_HOME to a folder with more"
            ) from error


def _checked(text: str) -> Requirement:
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise InstallRefused(f"{text!r} is no requirement: {error}") from None
    if requirement.url is not None:
        raise InstallRefused(f"{text!r} is at an address; name a published version, such as {requirement.name}==1.0")
    return requirement


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_DIGITS]
