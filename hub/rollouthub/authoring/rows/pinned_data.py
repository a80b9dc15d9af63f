"""`PinnedData`: the files of a named data set, pinned by digest; only `hub fetch NAME` brings them."""

import hashlib
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field

from rollouthub.authoring.rows.row_files import SUFFIXES, suffix_of
from rollouthub.errors import ConfigError
from rollouthub.plugins.manifest.value_forms import Sha256, Url
from rollouthub.values import Frozen


class PinnedFile(Frozen):
    """A data file elsewhere, and what it must be."""

    url: Url
    """Address of a JSONL, JSON or Parquet file."""
    sha256: Sha256
    """SHA-256 digest of the file's bytes, in hex."""
    bytes: int | None = Field(default=None, ge=0)
    """Size of the file; None where it is not known beforehand."""
    rows: int | None = Field(default=None, ge=0)
    """Number of its rows; None where it is not known beforehand."""

    @property
    def path(self) -> Path:
        """Where the file is kept on this machine, by its digest.

        Raises:
            ConfigError: the address names no data file.
        """
        suffix = suffix_of(Path(urlsplit(self.url).path))
        if suffix is None:
            raise ConfigError(f"{self.url} names no data file; its path must end in {', '.join(SUFFIXES)}")
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return cache / "rollouthub" / "tasks" / f"{self.sha256}{suffix}"

    @property
    def is_here(self) -> bool:
        """Whether the file is on this machine with the declared digest; it may have been cut short or changed."""
        try:
            return digest_of(self.path) == self.sha256
        except OSError:
            return False


class PinnedData(Frozen):
    """A named data set: a file for each split."""

    name: str = Field(min_length=1, max_length=100)
    """What `hub fetch` is told to bring it."""
    source: str | None = None
    """The work that the files are from."""
    license: str | None = None
    """The licence of that work, as an SPDX expression; None where it is not known."""
    splits: Mapping[str, PinnedFile] = Field(min_length=1)
    """Split → its file; the first is the default."""

    def file_of(self, split: str) -> Path:
        """The split's file on this machine.

        Raises:
            ConfigError: it has not been fetched.
        """
        file = self.splits[split]
        if not file.is_here:
            size = "" if file.bytes is None else f" ({file.bytes:,} bytes)"
            raise ConfigError(
                f"the data of {self.name!r} are not on this machine; `hub fetch {self.name}` fetches {file.url}{size}, "
                "or give a local copy with `--set data=PATH`"
            )
        return file.path


def digest_of(path: Path) -> str:
    """The SHA-256 digest of a file's bytes, in hex; read once, until the file changes.

    Raises:
        OSError: it cannot be read.
    """
    state = path.stat()
    return _digest(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=256)
def _digest(path: Path, _changed_ns: int, _size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
