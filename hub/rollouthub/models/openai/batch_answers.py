"""The answers of a batch: files of lines that a server wrote, found by custom id and read one at a time."""

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from rollouthub.event_loop import is_crowded
from rollouthub.http.exchange import MAX_ANSWER_BYTES
from rollouthub.plugins.plain_files import read_plain

logger = logging.getLogger(__name__)

_NULL = Raw(b"null")
_MOST_OTHERS = 10_000
"""Most lines of an output that are looked at beyond two for each request."""


class _Name(Struct, gc=False):
    custom_id: str = ""


class _Answered(Struct, gc=False):
    status_code: int = 200
    body: Raw = _NULL


class _OutputLine(Struct, gc=False):
    response: _Answered | None = None
    error: Raw = _NULL


_name = msgspec.json.Decoder(_Name).decode
_line = msgspec.json.Decoder(_OutputLine).decode


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """Where an answer's line is."""

    file: Path
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class FoundAnswers:
    """The answers in a batch's files."""

    places: dict[str, AnswerPlace]
    """Custom id → the first line that has it."""
    strange: int
    """Number of lines that are not read: with ids that were not asked, twice, or without one."""


def find_answers(files: Collection[Path], asked: Collection[str]) -> FoundAnswers:
    """Find the lines of the requests that were asked; a server may write anything else. Blocking."""
    wanted = frozenset(asked)
    places: dict[str, AnswerPlace] = {}
    strange = 0
    for file in files:
        for number, (start, length, line) in enumerate(_lines(file)):
            if number > _MOST_OTHERS + 2 * len(wanted):
                logger.warning("%s has many more lines than were asked for; the rest is not read", file)
                break
            name = _custom_id(line)
            if name is None or name not in wanted or name in places or length > MAX_ANSWER_BYTES:
                strange += bool(line.strip())
            else:
                places[name] = AnswerPlace(file, start, length)
    return FoundAnswers(places, strange)


def _lines(file: Path) -> Iterator[tuple[int, int, bytes]]:
    """The lines of a file with their places; of one that is too long to be an answer only its last part."""
    start = 0
    try:
        lines = read_plain(file)
    except FileNotFoundError:
        return
    with lines:
        while line := lines.readline(MAX_ANSWER_BYTES):
            length = len(line)
            while not line.endswith(b"\n") and (rest := lines.readline(MAX_ANSWER_BYTES)):
                length += len(rest)
                line = rest
            yield start, length, line
            start += length


def _custom_id(line: bytes) -> str | None:
    try:
        return _name(line).custom_id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class BatchedAnswer:
    """One answer: an HTTP status and a body, or the batch's own error."""

    status: int
    body: bytes
    code: str | None = None
    """The code of the batch's own error, such as `batch_expired`."""


def read_answer(place: AnswerPlace) -> BatchedAnswer:
    """Read one answer. Blocking.

    Raises:
        ValueError: the line is none of the Batch API.
    """
    with read_plain(place.file) as file:
        file.seek(place.offset)
        raw = file.read(place.length)
    try:
        line = _line(raw)
        error: Any = None if is_crowded(bytes(line.error)) else msgspec.json.decode(line.error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ValueError(f"its line of the batch's output is not one of the API ({problem})") from None
    if line.response is not None:
        return BatchedAnswer(line.response.status_code, bytes(line.response.body))
    fields = cast(dict[str, Any], error) if isinstance(error, dict) else {}
    return BatchedAnswer(0, bytes(line.error), str(fields.get("code")))
