"""A first look through an input: how many lines there are, and whether one makes nothing to score."""

from envhub.errors import DataError
from envhub.scoring.entry import EntryReader
from envhub.scoring.files import InputLines

HINT = ". Mend the line, or add --skip-bad to mark such lines and go on"


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
                raise DataError(problem + HINT, name, number)
    return count
