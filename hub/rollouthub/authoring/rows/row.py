"""`Row`: one row of a data set, with its file and line."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollouthub.errors import DataError

METADATA = "metadata"
"""Stem of the file that describes the pictures of a folder."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a data set, with its file and line. A dataclass, because many are made while tasks are read."""

    values: Mapping[str, Any]
    """Column → value: JSON types; from Parquet also dates and other types."""
    file: str
    line: int | None
    """Line number from 1; None if the file has no lines (Parquet, Hugging Face)."""
    index: int
    """Index in the file from 0, bad rows counted."""
    folder: Path | None = None
    """The folder that must contain files which the row names; None if it may name none."""

    @property
    def is_of_picture_folder(self) -> bool:
        """Whether the row is from the `metadata` file of a folder of pictures."""
        return Path(self.file).stem == METADATA

    def error(self, problem: str) -> DataError:
        """An error with the row's file and line in front."""
        where = "" if self.line is not None else f"row {self.index}: "
        return DataError(where + problem, self.file, self.line)

    def column(self, name: str, setting: str) -> Any:
        """The value of a column the user named with `--set SETTING=NAME`.

        Raises:
            DataError: the row has no such column; says which it has.
        """
        return self.named(name, (), setting)[1]

    def named(
        self, name: str | None, candidates: Sequence[str], setting: str, taken: Sequence[str] = ()
    ) -> tuple[str, Any]:
        """Name and value of the column the user named, else of the first candidate that exists.

        `taken` are columns that already serve another purpose, and are not suggested.

        Raises:
            DataError: the row has none; says which it has and how to name the right one.
        """
        names = candidates if name is None else (name,)
        for column in names:
            if column in self.values:
                return column, self.values[column]
        raise self.missing(names, setting, taken)

    def missing(self, names: Sequence[str], setting: str, taken: Sequence[str] = ()) -> DataError:
        """The error that the row has none of these columns; says which it has, and how to name the right one."""
        known = [str(column) for column in self.values]
        wanted = " or ".join(repr(name) for name in names)
        free = [column for column in known if column not in taken]
        close = [match for name in names for match in difflib.get_close_matches(name, free, n=1, cutoff=0.5)]
        meant = f"; did you mean {close[0]!r}?" if close else "."
        shown = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        return self.error(
            f"missing column {wanted}{meant} The columns are: {shown or 'none'}. "
            f"Name the right one with `--set {setting}={close[0] if close else 'COLUMN'}`."
        )
