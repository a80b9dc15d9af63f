"""A first look through an input: how many lines there are, and whether one makes nothing to score."""

from rollouthub.analysis.scoring.completion_line import EntryReader
from rollouthub.analysis.scoring.line_files import InputLines
from rollouthub.errors import DataError

_HINT = "Mend the line, or add --skip-bad to mark such lines and go on"


def with_hint(problem: str) -> str:
    """A problem of a line, and what to do about it."""
    return f"{problem.rstrip('.')}{'' if problem.endswith('?') else '.'} {_HINT}"


def survey(source: InputLines, name: str, reader: EntryReader | None, limit: int | None = None) -> int:
    """How many lines there are to score. With a reader every line is looked at, not only counted.

    Raises:
        DataError: a line makes nothing to score, or the input cannot be read.
    """
    count = number = 0
    for lines in source.pieces:
        for raw in lines:
            number += 1
            if not raw.strip():
                continue
            if count == limit:
                return count
            count += 1
            if reader is not None and (problem := reader.read(raw, number).problem) is not None:
                raise DataError(with_hint(problem), name, number)
    return count
