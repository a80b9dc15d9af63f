"""`Row`: one row of a data set, and where it stands."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollouthub.errors import DataError


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a data set, and where it stands. A dataclass: it is made and dropped while tasks are read."""

    values: Mapping[str, Any]
    """Column → value: JSON's types, from Parquet also dates and the like."""
    file: str
    line: int | None
    """1-based; None where a file has no lines (Parquet, Hugging Face)."""
    index: int
    """0-based place in the file, bad rows counted."""

    def error(self, problem: str) -> DataError:
        """This problem, with the row's place in front."""
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
        """The column the user named, else the first of the candidates that is there; by name and value.

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
        """That the row has none of these columns, what it has, and how to name the right one."""
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
