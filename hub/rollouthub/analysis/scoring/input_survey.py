"""A first pass over an input: counts its lines, and optionally checks that each can be scored."""

from rollouthub.analysis.scoring.completion_line import EntryReader
from rollouthub.analysis.scoring.line_files import InputLines
from rollouthub.errors import DataError

_HINT = "Mend the line, or add --skip-bad to mark such lines and go on"


def with_hint(problem: str) -> str:
    """A line's problem followed by advice on what to do."""
    return f"{problem.rstrip('.')}{'' if problem.endswith('?') else '.'} {_HINT}"


def survey(source: InputLines, name: str, reader: EntryReader | None, limit: int | None = None) -> int:
    """Count the lines to score, up to the limit. With a reader, also check that every line can be scored.

    Raises:
        DataError: a line cannot be scored, or the input cannot be read.
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
