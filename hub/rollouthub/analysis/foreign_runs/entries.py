"""What the formats share: entries from lines or from elements of a document, and the numbers of a task's samples."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from rollouthub.analysis.foreign_runs.foreign_messages import as_object
from rollouthub.analysis.foreign_runs.foreign_record import ForeignEpisode, found
from rollouthub.analysis.foreign_runs.json_pieces import MOST_BYTES, Piece, decode, json_document, json_lines
from rollouthub.analysis.foreign_runs.run_format import FoundRollout, Unreadable
from rollouthub.plugins.plain_files import read_plain

Make = Callable[[dict[str, Any]], ForeignEpisode | None]
"""Makes an episode of an object; None if the object is none of its own, such as a line of metadata.

Raises `ValueError` for an object that makes none.
"""
Entry = FoundRollout | Unreadable
BAD = (ValueError, OverflowError, RecursionError)
"""What bad values of a file raise; pydantic's errors are among them."""


class Samples:
    """Numbers the samples of each task, in the order in which they come."""

    def __init__(self) -> None:
        self._count = Counter[str]()
        self._given = Counter[tuple[str, int]]()

    def next(self, task_id: str) -> int:
        """The number of the next sample of a task."""
        self._count[task_id] += 1
        return self._count[task_id] - 1

    def attempt(self, task_id: str, sample: int) -> int:
        """The number of the next attempt at a sample that the file numbers itself."""
        self._given[task_id, sample] += 1
        return self._given[task_id, sample] - 1


def from_lines(path: Path, make: Make, tool: str) -> Iterator[Entry]:
    """An entry for each line of a file."""
    for number, piece in json_lines(path):
        yield from entry_of(piece, f"line {number}", make, tool)


def from_document(path: Path, listed: Collection[str], make: Make, tool: str) -> Iterator[Entry]:
    """An entry for each element of these lists of a document, or of the document if it is a list."""
    elements = (piece for piece in json_document(path, listed) if piece.is_element)
    for number, piece in enumerate(elements, 1):
        yield from entry_of(piece, f"{piece.name or 'entry'} {number}", make, tool)


def entry_of(piece: Piece, place: str, make: Make, tool: str) -> Iterator[Entry]:
    """The entry that one piece of a file makes; none where it is not an episode's."""
    if piece.raw is None:
        yield Unreadable(place, f"it has more than {MOST_BYTES:,} bytes", piece.end)
        return
    try:
        value = decode(piece.raw)
        if not isinstance(value, dict):
            raise ValueError("it is no object")
        episode = make(as_object(value))
        if episode is not None:
            episode.position, episode.held = piece.end, 3 * len(piece.raw)
            yield found(episode, tool)
    except BAD as error:
        yield Unreadable(place, str(error), piece.end)


def members(path: Path, names: Collection[str], until: Collection[str]) -> dict[str, Any]:
    """The named members of a document, read up to the first element of a list in `until`; empty of what is not there.

    Raises:
        ConfigError: the document cannot be read.
    """
    got: dict[str, Any] = {}
    for piece in json_document(path, until):
        if piece.is_element:
            break
        if piece.name in names and piece.raw is not None:
            try:
                got[piece.name] = decode(piece.raw)
            except ValueError:
                continue
    return got


def as_json(value: Any) -> str:
    """A value in one spelling, for a digest."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def bytes_of(path: Path, most: int = MOST_BYTES) -> bytes:
    """A file in a source's folder; nothing is read through a link.

    Raises:
        OSError: it is not there, or is no regular file.
        ValueError: it is too large.
    """
    with read_plain(path) as opened:
        raw = opened.read(most + 1)
    if len(raw) > most:
        raise ValueError(f"its {path.name} has more than {most:,} bytes")
    return raw


def small_object(path: Path, most: int = 16 * 2**20) -> dict[str, Any]:
    """A small JSON file beside a run; empty where it is missing, larger than `most` bytes, or no object."""
    try:
        value = decode(bytes_of(path, most))
    except (OSError, ValueError):
        return {}
    return as_object(value)


def mean(values: Iterable[float]) -> float | None:
    """The mean; None of nothing."""
    listed = list(values)
    return sum(listed) / len(listed) if listed else None
