"""The arguments of `hub install`: a package in a registry, a folder, an archive, or a commit of a Git repository."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rollouthub.errors import ConfigError
from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub_registry.client.version_ranges import VersionRequest
from rollouthub_registry.names import NameRefused
from rollouthub_registry.shipped import refuse_shipped

ARCHIVE = ".envhub"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SCHEMES = ("https", "file")
_SCP = re.compile(r"[\w.-]+@[\w.-]+:")
"""An address as `git clone` takes it: USER@HOST:PATH."""
_FOLDER, _ARCHIVE, _GIT = "directory ", "archive ", "git+"


@dataclass(frozen=True)
class FolderArgument:
    """The folder of an environment on this machine."""

    folder: Path

    @property
    def source(self) -> str:
        """The source in the form of records and locks."""
        return f"{_FOLDER}{self.folder}"


@dataclass(frozen=True)
class ArchiveArgument:
    """A bundle file on this machine."""

    file: Path

    @property
    def source(self) -> str:
        """The source in the form of records and locks."""
        return f"{_ARCHIVE}{self.file}"

    @property
    def statement(self) -> Path:
        """Path of its signed statement, which may not exist."""
        return self.file.with_name(f"{self.file.name}.statement.json")


@dataclass(frozen=True)
class GitArgument:
    """A commit of a Git repository."""

    url: str
    commit: str
    folder: str = ""
    """The environment's folder in the repository; empty for the root."""

    @property
    def source(self) -> str:
        """The source in the form of records and locks."""
        below = f"#subdirectory={self.folder}" if self.folder else ""
        return f"{_GIT}{self.url}@{self.commit}{below}"


Argument = VersionRequest | FolderArgument | ArchiveArgument | GitArgument


def parse_argument(text: str, here: Path, *, is_package: bool = False) -> Argument:
    """Parse an argument; relative paths start from the folder `here`.

    `is_package` says that it must be a package's name, because a registry was given with it.

    Raises:
        UsageError: the text is none of these, or ambiguous.
    """
    if text.startswith(_GIT):
        return _git(text)
    if _SCP.match(text) or ("://" in text and not text.startswith(("/", ".", "~"))):
        raise _address(text)
    path = _path(text)
    if text.endswith(ARCHIVE) and "@" not in text:
        return ArchiveArgument((here / path).absolute())
    if path.is_absolute() or text in (".", "..") or text.startswith(("./", "../", "~")):
        return FolderArgument((here / path).resolve())
    try:
        wanted = VersionRequest.parse(text)
    except NameRefused as error:
        refuse_shipped(text, "install")
        if text and _is_folder(here / path):
            raise ConfigError(f"{text!a} is no package; for the folder of that name write ./{text}") from error
        raise
    if "@" not in text and not is_package and (here / path / FILE_NAME).is_file():
        # Taking the folder would let whoever wrote it stand in for the registry's package, and the other way round.
        raise ConfigError(
            f"{text!r} is a package's name, and a folder here: write ./{text} for the folder, or {text}@latest for the "
            "package"
        )
    return wanted


def parse_source(source: str) -> FolderArgument | ArchiveArgument | GitArgument | None:
    """Parse the source in a record or lock; None if it is a registry.

    Raises:
        ConfigError: it names a repository in an invalid form.
    """
    if source.startswith(_FOLDER):
        return FolderArgument(Path(source.removeprefix(_FOLDER)))
    if source.startswith(_ARCHIVE):
        return ArchiveArgument(Path(source.removeprefix(_ARCHIVE)))
    return _git(source) if source.startswith(_GIT) else None


def _path(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"{text[:100]!a} begins with the home of a user who is not here; write the whole path"
        ) from error


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False  # too long for any folder's name


def _address(text: str) -> ConfigError:
    """Why a URL alone names no environment; parts that may hold a login or a token are not repeated."""
    shown = ascii(text[:200]) if not {"@", "?"} & set(text) else "the address"
    if text.endswith(".git") or _SCP.match(text):
        return ConfigError(f"{shown} names no commit of a repository; write git+https://HOST/REPOSITORY.git@COMMIT")
    if text.endswith(ARCHIVE):
        return ConfigError(f"{shown} is no file of this machine; download the archive and its statement first")
    return ConfigError(
        f"{shown} names no environment; write namespace/name --registry URL for a package of a registry, or "
        "git+https://HOST/REPOSITORY.git@COMMIT"
    )


def _git(text: str) -> GitArgument:
    if len(text) > 2000 or not text.isprintable() or " " in text:
        raise ConfigError(f"{text[:200]!a} is no address of a repository")
    address, _, fragment = text.removeprefix(_GIT).partition("#")
    url, at, commit = address.rpartition("@")
    try:
        parts = urlsplit(url if at else address)
    except ValueError as error:
        raise ConfigError(f"{text!r} is no address of a repository: {error}") from error
    if parts.scheme not in _SCHEMES:
        raise ConfigError(f"{text!r}: a repository's address begins with git+https:// or git+file://")
    if "@" in parts.netloc or parts.query:
        raise ConfigError("the repository's address holds a user, a password or a query; leave that out")
    if not at or "/" in commit or not _COMMIT.fullmatch(commit):
        named = f"{commit!r} may move" if at and "/" not in commit and commit else "its branches move"
        raise ConfigError(
            f"{_GIT}{url if at else address}: {named}; pin a commit: git+URL@COMMIT, with all of its 40 hexadecimal "
            "digits (`git rev-parse HEAD`)"
        )
    return GitArgument(url, commit, _subdirectory(fragment))


def _subdirectory(fragment: str) -> str:
    if not fragment:
        return ""
    key, _, folder = fragment.partition("=")
    parts = folder.strip("/").split("/")
    if key != "subdirectory" or not all(parts) or any(part in (".", "..") or part.startswith("-") for part in parts):
        raise ConfigError(f"'#{fragment}' names no folder of the repository; write #subdirectory=FOLDER")
    return "/".join(parts)
