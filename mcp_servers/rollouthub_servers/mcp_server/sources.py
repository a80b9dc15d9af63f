"""Sources of rows: a file beside env.toml, a downloaded file with a known digest, or a data set."""

from collections.abc import Iterator
from pathlib import Path

from rollouthub.authoring.rows import PinnedFile, Row, RowSource, digest_of, fetch_file
from rollouthub.errors import ConfigError
from rollouthub.plugins.manifest import TaskSource
from rollouthub.task import BadRow


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
        try:
            fetch_file(_pinned(source))
        except ConfigError as error:
            raise ConfigError(f"{key}: {error}") from error
    elif source.sha256 is not None:
        file = _file_of(source, folder)
        try:
            found = digest_of(file)
        except OSError as error:
            raise ConfigError(f"{key}: {file} cannot be read: {error.strerror or error}") from error
        if found != source.sha256:
            raise ConfigError(f"{key}: {file} has the digest {found}, not the declared sha256 = {source.sha256!r}")


def _file_of(source: TaskSource, folder: Path) -> Path:
    return _pinned(source).path if source.file is None else folder / source.file


def _pinned(source: TaskSource) -> PinnedFile:
    assert source.url is not None
    assert source.sha256 is not None
    return PinnedFile(url=source.url, sha256=source.sha256, bytes=source.bytes, rows=source.rows)
