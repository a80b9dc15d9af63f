"""File formats by file name endings, so that no file has another format than its name says."""

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
"""Endings of spreadsheet files, for which .csv is suggested."""


def file_format(out: Path | None, formats: Sequence[FileFormat], asked: str | None = None) -> FileFormat:
    """The file format to write: the requested one, else the one of the file's ending, else the first.

    Names without an ending, devices and pipes determine no format.

    Raises:
        UnknownNameError: the requested format is not one of `formats`.
        ConfigError: the name has the ending of another format; the message lists fitting ones.
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
    """A hint for the error message: the fitting endings, and the name that was probably meant."""
    endings = [ending for known in formats for ending in ENDINGS[known]]
    listing = f"{', '.join(endings[:-1])} or {endings[-1]}" if len(endings) > 1 else endings[0]
    likely = _likely(out.suffix.lower(), endings, formats)
    return f"end it in {listing}" + (f"; did you mean {str(out.with_suffix(likely))!r}?" if likely else "")


def _likely(ending: str, fitting: Sequence[str], formats: Sequence[FileFormat]) -> str | None:
    """The ending that was probably meant; None if none is similar."""
    if ending in _SHEETS and ".csv" in fitting:
        return ".csv"
    close = difflib.get_close_matches(ending, fitting, 1, 0.5)
    return close[0] if close else fitting[0] if len(formats) == 1 else None
