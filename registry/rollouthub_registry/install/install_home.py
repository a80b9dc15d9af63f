"""`InstallHome`: the folder of a user's installed environments."""

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from rollouthub.errors import ConfigError, UsageError, invalid_fields
from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.installed import Installation
from rollouthub_registry.install.install_record import InstalledRecord
from rollouthub_registry.names import NameRefused, PackageName, Release, Version

RECORD, STATEMENT = "installed.json", "statement.dsse.json"
CONTENT, VENV = "content", "venv"
_LOCK = ".lock"
_PARTIAL = ".partial"


class InstallHome:
    """A folder with `NAMESPACE/NAME/VERSION/` for each installed version; read only when a method asks for it.

    Folders being installed or removed have a name that begins with a dot and ends with `.partial`. Every process that
    works here holds a shared lock; one that can get it exclusively knows that such folders are left over.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "InstallHome":
        """The user's folder: `$XDG_DATA_HOME/rollouthub/environments`."""
        return cls(data_home(environ) / "environments")

    def folder(self, release: Release) -> Path:
        """The folder of a version, whether installed or not."""
        return self.root / release.package.namespace / release.package.name / str(release.version)

    def all(self) -> list[Installation]:
        """Every installed version, sorted by name and version.

        Raises:
            ConfigError: an installation is damaged.
        """
        return [self._read(release) for release in self.releases()]

    def readable(self, package: PackageName | None = None) -> tuple[list[Installation], list[ConfigError]]:
        """The installed versions that can be read, sorted by name and version, and the errors of the others.

        Of `package`, or of all packages.

        Raises:
            ConfigError: the home itself cannot be read.
        """
        read, damaged = list[Installation](), list[ConfigError]()
        for release in self.releases(package):
            try:
                read.append(self._read(release))
            except ConfigError as error:
                damaged.append(error)
        return read, damaged

    def releases(self, package: PackageName | None = None) -> list[Release]:
        """The installed versions, damaged ones included, sorted by name and version; of `package`, or of all.

        Raises:
            ConfigError: the home cannot be read.
        """
        try:
            return sorted(self._releases(package), key=lambda release: (release.package, release.version))
        except OSError as error:
            raise ConfigError(
                f"the installed environments in {self.root} cannot be read: {error.strerror or error}"
            ) from error

    def find(self, target: str) -> Installation | None:
        """The installation for `namespace/name` (its highest version) or `namespace/name@version`; None if there is
        none.

        Raises:
            ConfigError: that installation is damaged.
        """
        name, _, version = target.partition("@")
        try:
            package = PackageName.parse(name)
            wanted = Version.parse(version) if version else None
        except NameRefused:
            return None
        # Of the highest version a prerelease comes only where there is nothing else.
        found = [each for each in self.releases(package) if wanted is None or each.version == wanted]
        found.sort(key=lambda release: (not release.version.prerelease, release.version))
        return self._read(found[-1]) if found else None

    def record(self, installation: Installation) -> InstalledRecord:
        """The record of an installation.

        Raises:
            ConfigError: the record is missing or damaged.
        """
        return self.read_record(Release.parse(installation.target))

    def read_record(self, release: Release) -> InstalledRecord:
        """The record of an installed version.

        Raises:
            ConfigError: the record is missing or damaged.
        """
        folder = self.folder(release)
        try:
            record = InstalledRecord.model_validate_json((folder / RECORD).read_bytes())
            named = record.release
        except FileNotFoundError:
            raise _damaged(folder, release, f"it has no {RECORD}") from None
        except OSError as error:
            raise _damaged(folder, release, error.strerror or str(error)) from error
        except NameRefused as error:
            raise _damaged(folder, release, str(error)) from error
        except ValidationError as error:
            raise _damaged(
                folder, release, f"{RECORD} is damaged, or of a newer hub: {invalid_fields(error)}"
            ) from error
        if named != release:
            raise _damaged(folder, release, f"{RECORD} is of {named}")
        return record

    def remove(self, release: Release) -> None:
        """Remove a version at once, by a rename; files left by an interruption are removed later.

        Raises:
            UsageError: it is not installed, or cannot be removed.
        """
        folder = self.folder(release)
        try:
            with self.working():
                away = self.aside(release)
                folder.rename(away)
                shutil.rmtree(away, ignore_errors=True)
                self.tidy(release)
        except FileNotFoundError:
            raise UsageError(f"{release} is not installed; `hub list` shows what is") from None
        except OSError as error:
            raise UsageError(f"{release} cannot be removed from {folder}: {error.strerror or error}") from error

    def aside(self, release: Release) -> Path:
        """A new name beside a version's folder, for a folder being installed or removed."""
        folder = self.folder(release)
        return folder.with_name(f".{folder.name}.{secrets.token_hex(8)}{_PARTIAL}")

    @contextmanager
    def working(self) -> Generator[None]:
        """Hold the shared lock of the home; if no other process works in it, remove left-over folders first.

        Raises:
            OSError: the home cannot be created or locked.
        """
        self.root.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(self.root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for left in self.root.glob(f"*/*/.*{_PARTIAL}"):
                    shutil.rmtree(left, ignore_errors=True)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)

    def tidy(self, release: Release) -> None:
        """Remove the folders of a version's package and namespace if they are empty."""
        with contextlib.suppress(OSError):
            self.folder(release).parent.rmdir()
            self.folder(release).parent.parent.rmdir()

    def installation(self, record: InstalledRecord) -> Installation:
        """The installation that a record describes."""
        folder = self.folder(record.release)
        return Installation(
            locked=record.locked,
            summary=record.summary,
            file=folder / CONTENT / FILE_NAME,
            python=interpreter(folder / VENV),
            is_class=record.is_class,
            secrets=record.secrets,
        )

    def _read(self, release: Release) -> Installation:
        return self.installation(self.read_record(release))

    def _releases(self, package: PackageName | None) -> Iterator[Release]:
        folders: Sequence[Path]
        if package is None:
            folders = [name for namespace in _folders(self.root) for name in _folders(namespace)]
        else:
            folders = [self.root / package.namespace / package.name]
        for folder in folders:
            for version in _folders(folder):
                # What is no name of ours was not put there by us.
                with contextlib.suppress(NameRefused):
                    yield Release.parse(f"{folder.parent.name}/{folder.name}@{version.name}")


def data_home(environ: Mapping[str, str]) -> Path:
    """The folder of the hub's data for this user: `$XDG_DATA_HOME/rollouthub`."""
    given = environ.get("XDG_DATA_HOME") or ""
    home = Path(environ.get("HOME") or Path.home())
    return (Path(given) if given.startswith("/") else home / ".local" / "share") / "rollouthub"


def interpreter(venv: Path) -> Path:
    """The Python of a virtual environment."""
    return venv / "bin" / "python"


def _folders(folder: Path) -> list[Path]:
    try:
        return [each for each in folder.iterdir() if not each.name.startswith(".") and each.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _damaged(folder: Path, release: Release, problem: str) -> ConfigError:
    return ConfigError(
        f"the installation of {release} in {folder} is damaged: {problem}; "
        f"`hub install {release} --reinstall` puts it right, `hub remove {release}` takes it away"
    )
