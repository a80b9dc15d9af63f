"""Sources of rows: a file beside env.toml, a downloaded file with a known digest, or a data set."""

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from rollouthub.authoring.rows import Row, RowSource
from rollouthub.authoring.rows.row_files import SUFFIXES, suffix_of
from rollouthub.errors import ConfigError, said
from rollouthub.plugins.manifest import TaskSource
from rollouthub.task import BadRow

MOST_BYTES = 1 << 30
FETCH_SECONDS = 600.0
_STILL_SECONDS = 30.0
_CHUNK = 1 << 20


def rows_of(source: TaskSource, folder: Path, split: str) -> Iterator[tuple[str, Row] | BadRow]:
    """The rows of a split, read lazily; `make_ready` must have been called before."""
    if source.hf is not None:
        return RowSource(source.data).rows(source.split or split)
    return RowSource(str(_file_of(source, folder))).rows("test")


def make_ready(source: TaskSource, split: str, folder: Path) -> None:
    """Download the file if needed, and check that it has the declared digest.

    Raises:
        ConfigError: it cannot be downloaded, or its digest differs.
    """
    key = f"tasks.{split}"
    if source.url is not None:
        file = _file_of(source, folder)
        # What lies there may have been cut short, or changed, since.
        if not file.is_file() or _digest(file) != source.sha256:
            _fetch(source.url, str(source.sha256), file, key)
    elif source.sha256 is not None:
        file = _file_of(source, folder)
        try:
            found = _digest(file)
        except OSError as error:
            raise ConfigError(f"{key}: {file} cannot be read: {error.strerror or error}") from error
        if found != source.sha256:
            raise ConfigError(f"{key}: {file} has the digest {found}, not the declared sha256 = {source.sha256!r}")


def _file_of(source: TaskSource, folder: Path) -> Path:
    if source.file is not None:
        return folder / source.file
    assert source.url is not None
    suffix = suffix_of(Path(urlsplit(source.url).path))
    if suffix is None:
        raise ConfigError(f"tasks: {source.url} names no data file; its path must end in {', '.join(SUFFIXES)}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "rollouthub" / "tasks" / f"{source.sha256}{suffix}"


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _fetch(url: str, expected: str, file: Path, key: str) -> None:
    """Download to a temporary file, and move it into place once it is complete and checked."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as target:
            found = _copy(url, target, key)
        if found != expected:
            raise ConfigError(f"{key}: what {url} gives has the digest {found}, not the declared sha256 = {expected!r}")
        Path(name).replace(file)
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()


def _copy(url: str, target: BinaryIO, key: str) -> str:
    digest, size, end = hashlib.sha256(), 0, time.monotonic() + FETCH_SECONDS
    try:
        # The manifest lets only http and https pass, and the library follows no redirect to anything else but ftp.
        with urlopen(Request(url, headers={"User-Agent": "rollouthub"}), timeout=_STILL_SECONDS) as answer:
            while chunk := answer.read(_CHUNK):
                size += len(chunk)
                if size > MOST_BYTES or time.monotonic() > end:
                    raise ConfigError(f"{key}: {url} is over {MOST_BYTES:,} bytes, or takes over {FETCH_SECONDS:g} s")
                digest.update(chunk)
                target.write(chunk)
    except (OSError, ValueError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the answer
        raise ConfigError(f"{key}: {url} could not be fetched: {said(error)}") from error
    return digest.hexdigest()
