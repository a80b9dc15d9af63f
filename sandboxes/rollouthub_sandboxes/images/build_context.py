"""The folder that an image is built from: which files go to the engine, and a hash of their content."""

import hashlib
import io
import stat
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rollouthub.errors import ConfigError

IGNORE = ".dockerignore"
REWRITTEN = ".rollouthub.Dockerfile"


@dataclass(frozen=True, slots=True)
class Context:
    """A folder's files that are not ignored, and its Dockerfile."""

    folder: Path
    names: tuple[str, ...]
    """Paths relative to the folder, with `/`; folders are included, since an empty one counts."""
    dockerfile: str
    """Text of the Dockerfile."""
    dockerfile_name: str

    def fingerprint(self) -> str:
        """A hash over names, modes, kinds and bytes of the files, and nothing else; reads every file.

        The Dockerfile's own mode is left out: it depends on how the folder was checked out.
        """
        digest = hashlib.sha256()
        for name in self.names:
            path = self.folder / name
            details = path.lstat()
            mode = "" if name == self.dockerfile_name else f"{details.st_mode:o}"
            digest.update(f"{name}\0{mode}\0".encode("utf-8", "surrogateescape"))
            if stat.S_ISLNK(details.st_mode):
                digest.update(str(path.readlink()).encode("utf-8", "surrogateescape"))
            elif stat.S_ISREG(details.st_mode):
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def pack(self, target: IO[bytes], dockerfile: str) -> str:
        """Write the folder as a tar archive with the given Dockerfile; return the Dockerfile's name in the archive."""
        with tarfile.open(fileobj=target, mode="w") as tar:
            for name in self.names:
                if dockerfile == self.dockerfile or name != IGNORE:
                    self._add(tar, name)
            if dockerfile == self.dockerfile:
                return self.dockerfile_name
            # Beside the folder's own one, and kept out of `COPY .` like that file's list of what to ignore.
            _add_text(tar, REWRITTEN, dockerfile)
            _add_text(tar, IGNORE, f"{REWRITTEN}\n{IGNORE}\n")
        return REWRITTEN

    def _add(self, tar: tarfile.TarFile, name: str) -> None:
        path = self.folder / name
        details = tar.gettarinfo(path, name)
        details.uid = details.gid = 0
        details.uname = details.gname = ""
        details.mtime = 0
        if details.isreg():
            with path.open("rb") as file:
                tar.addfile(details, file)
        else:
            tar.addfile(details)


def read_context(folder: Path, dockerfile: str) -> Context:
    """Read a folder's file names and its Dockerfile.

    Raises:
        ConfigError: there is no such folder or Dockerfile, or one of them cannot be read.
    """
    path = folder / dockerfile
    if not folder.is_dir():
        raise ConfigError(f"an image is to be built from {str(folder)!r}, but there is no such folder")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"the Dockerfile {dockerfile!r} is outside of {str(folder)!r}, from which it is to be built")
    try:
        text = path.read_text()
        ignored = _patterns(folder / IGNORE)
        names = _names(folder, ignored, dockerfile)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no {dockerfile!r} in {str(folder)!r} to build an image from") from error
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"an image cannot be built from {str(folder)!r}: {error}") from error
    return Context(folder, names, text, dockerfile)


def _names(folder: Path, ignored: list[str], dockerfile: str) -> tuple[str, ...]:
    from docker.utils.build import exclude_paths

    found: Iterable[str] = exclude_paths(str(folder), ignored, dockerfile)
    # Parents before what is in them; sockets and the like cannot be sent.
    return tuple(sorted(name for name in found if name and _is_sent((folder / name).lstat().st_mode)))


def _is_sent(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def _patterns(file: Path) -> list[str]:
    if not file.is_file():
        return []
    lines = (line.strip() for line in file.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    details = tarfile.TarInfo(name)
    details.size, details.mode = len(data), 0o644
    tar.addfile(details, io.BytesIO(data))
