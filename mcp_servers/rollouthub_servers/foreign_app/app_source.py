"""Where an application is imported from: the folder of a source, and what its distribution says that it needs."""

from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from pydantic import BaseModel, ConfigDict, Field

from rollouthub.errors import ConfigError
from rollouthub.plugins.components import component
from rollouthub.plugins.importers import ImportSource, Note, SourceKind
from rollouthub_servers.foreign.folder_digest import digest_of_folder
from rollouthub_servers.foreign.partial_lock import needs_of
from rollouthub_servers.foreign.requirements import ForeignLock, foreign_home
from rollouthub_servers.foreign_app.app_folder import AppFolder, lock_app
from rollouthub_servers.foreign_app.app_record import BESIDE, CODE


class AppImport(BaseModel):
    """Settings of the import of any application, besides the settings of its environment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requirements: tuple[str, ...] = ()
    """Further distributions that the application needs but does not declare."""
    without: tuple[str, ...] = ()
    """Declared distributions that are not installed, such as one without a wheel whose code is in `beside`."""
    beside: Path | None = None
    """A folder of Python packages to import from; it is copied into the package."""
    variables: dict[str, str] = Field(default_factory=dict[str, str])
    """Environment variables of the application's process, as its container would set them."""

    @property
    def absent(self) -> tuple[str, ...]:
        """The modules of distributions that are neither installed nor in `beside`."""
        beside = {each.stem for each in self.beside.iterdir()} if self.beside is not None else set[str]()
        return tuple(name for name in self.without if name not in beside)


@dataclass(frozen=True)
class AppKit:
    """What a format runs on."""

    release: str
    """The framework's distribution, installed without its dependencies."""
    base: tuple[str, ...]
    """The framework's dependencies that a server's own process imports."""
    met: tuple[str, ...]
    """Names of applications' requirements that are met in another way."""


def source_folder(source: ImportSource, note: Note) -> tuple[Path, tuple[str, ...]]:
    """The folder of a source, and the requirements that it has beside those in its files. Blocks.

    Raises:
        UsageError: it cannot be had.
    """
    if source.kind == "folder":
        return source.folder, ()
    if source.kind == "git":
        return Path(component("foreign_checkout")(source.text, note)), ()
    wheel = foreign_home().wheel(source.text)
    needs = tuple(str(each) for each in needs_of(wheel, Requirement(source.text).extras, note))
    return foreign_home().unpacked(wheel, note), needs


SOURCES: dict[SourceKind, str] = {
    "folder": "an environment's folder, or a checkout that holds several",
    "requirement": "a distribution that holds its code",
    "git": "a commit, git+https://HOST/REPOSITORY@COMMIT#subdirectory=FOLDER",
}


def install_app(
    app: AppFolder, name: str, kit: AppKit, given: AppImport, data: Path, note: Note
) -> tuple[ForeignLock, str]:
    """Copy an application and what lies beside it into the folder of an import, and lock what it needs. Blocks.

    Gives the lock, and the digest of what was copied.

    Raises:
        ConfigError: it cannot be copied.
        UsageError: nothing fits together, or no index can be reached.
    """
    (data / CODE).mkdir(parents=True)
    lock = lock_app(kit.release, kit.base, app.requirements(), kit.met, given.without, given.requirements, note)
    app.copy(data / CODE / name)
    if given.beside is not None:
        if not given.beside.is_dir():
            raise ConfigError(f"beside={str(given.beside)!r} is no folder; name one that holds packages of Python")
        AppFolder(given.beside).copy(data / BESIDE)
    lock.write(data)
    return lock, digest_of_folder(data, CODE, BESIDE)
