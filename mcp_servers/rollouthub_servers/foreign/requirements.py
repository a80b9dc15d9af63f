"""Requirements of a foreign format: resolved once at the import, stored with hashes, and installed from those hashes
alone.
"""

import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from rollouthub.errors import ConfigError
from rollouthub.plugins.components import component
from rollouthub.plugins.lock import LockedDependency
from rollouthub.values import Frozen
from rollouthub_servers.foreign.folder_digest import digest_of_folder
from rollouthub_servers.foreign.imported_file import read_imported

LOCK_FILE = "foreign.lock.json"
PYTHON = ".".join(platform.python_version_tuple()[:2])


def _silent(_: str) -> None:
    """A progress callback that discards its text."""


class ForeignLock(Frozen):
    """The locked distributions of an imported package, by digest; stored beside its module as `foreign.lock.json`."""

    python: str
    """Version of Python that `dependencies` were resolved for, such as `3.11`."""
    wheel: LockedDependency | None = None
    """The distribution that the environment was imported from; it is unpacked, not installed, whatever Python
    version it requires.
    """
    dependencies: tuple[LockedDependency, ...] = ()
    folders: dict[str, str] = {}
    """Folder of foreign code beside the lock → its digest at the import."""

    def write(self, data: Path, *folders: str) -> None:
        """Write the lock into the folder of an import, with the digests of those of its folders that hold code."""
        digests = {name: digest_of_folder(data, name) for name in folders if (data / name).is_dir()}
        text = self.model_copy(update={"folders": digests}).model_dump_json(indent=1)
        (data / LOCK_FILE).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> "ForeignLock":
        """Read a lock file.

        Raises:
            ConfigError: the file cannot be read, is for another Python version, or code beside it was changed.
        """
        lock = read_imported(cls, file)
        if lock.python != PYTHON:
            raise ConfigError(
                f"{file} was made for Python {lock.python}, and this hub runs on {PYTHON}; import it again here"
            )
        for name, digest in lock.folders.items():
            if digest_of_folder(file.parent, name) != digest:
                raise ConfigError(f"{file.parent / name}: the code there is not what was imported; import it again")
        return lock


class ForeignHome(Protocol):
    """The component `foreign_home`: the current user's virtual environments and wheels for foreign formats. All
    methods block.
    """

    def lock(self, requirements: Sequence[str], note: Callable[[str], None] = ...) -> tuple[LockedDependency, ...]:
        """Resolve requirements to wheels with hashes."""
        ...

    def python(self, dependencies: Sequence[LockedDependency], note: Callable[[str], None] = ...) -> Path:
        """Return the interpreter of the virtual environment with exactly these distributions; create it if needed."""
        ...

    def wheel(self, requirement: str) -> LockedDependency:
        """Resolve a requirement of one distribution to its version and its hashes."""
        ...

    def unpacked(self, wheel: LockedDependency, note: Callable[[str], None] = ...) -> Path:
        """Return the folder with the files of one wheel."""
        ...


def foreign_home() -> ForeignHome:
    """Return the current user's `ForeignHome`.

    Raises:
        ConfigError: this installation of the hub does not provide it.
    """
    return component("foreign_home").of()


def lock_requirements(requirements: Sequence[str], note: Callable[[str], None] = _silent) -> ForeignLock:
    """Resolve requirements for this Python. Blocks for seconds.

    Raises:
        UsageError: the requirements conflict, or no index can be reached.
    """
    return ForeignLock(python=PYTHON, dependencies=foreign_home().lock(requirements, note))
