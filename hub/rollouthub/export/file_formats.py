"""Formats of files by the ends of their names, so that no file holds another format than its name says."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.store.atomic_files import is_stream

FileFormat = Literal["jsonl", "parquet", "csv"]
ENDINGS: Mapping[FileFormat, tuple[str, ...]] = {
    "jsonl": (".jsonl", ".ndjson"),  # .json would be one value
    "parquet": (".parquet",),
    "csv": (".csv",),
}
_SHEETS = (".xlsx", ".xls", ".ods", ".tsv")
"""What spreadsheets keep: they open .csv as well."""


def file_format(out: Path | None, formats: Sequence[FileFormat], asked: str | None = None) -> FileFormat:
    """What to write: the one of these formats that was asked for, else what the file's name says, else the first.

    Nothing is said by a name without an ending, nor by a device's or a pipe's.

    Raises:
        UnknownNameError: what was asked for is none of the formats.
        ConfigError: the name has the ending of something else; those that fit are named.
    """
    fitting: list[FileFormat] = [known for known in formats if asked in (None, known)]
    if not fitting:
        raise UnknownNameError("file format", str(asked), formats)
    if out is None or not out.suffix or is_stream(out):
        return fitting[0]
    for known in fitting:
        if out.suffix.lower() in ENDINGS[known]:
            return known
    raise ConfigError(f"{str(out)!r} would not hold what its name says: {_advice(out, fitting)}")


def _advice(out: Path, formats: Sequence[FileFormat]) -> str:
    """The endings that fit, and what the name was probably meant to be."""
    endings = [ending for known in formats for ending in ENDINGS[known]]
    listing = f"{', '.join(endings[:-1])} or {endings[-1]}" if len(endings) > 1 else endings[0]
    likely = _likely(out.suffix.lower(), endings, formats)
    return f"end it in {listing}" + (f"; did you mean {str(out.with_suffix(likely))!r}?" if likely else "")


def _likely(ending: str, fitting: Sequence[str], formats: Sequence[FileFormat]) -> str | None:
    """What a wrong ending was to be; None where nothing is like it."""
    if ending in _SHEETS and ".csv" in fitting:
        return ".csv"
    close = difflib.get_close_matches(ending, fitting, 1, 0.5)
    return close[0] if close else fitting[0] if len(formats) == 1 else None
