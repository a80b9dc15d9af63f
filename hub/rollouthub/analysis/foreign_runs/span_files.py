"""Files of spans: one object a line, a list of them, or lists under named members of a document."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from rollouthub.analysis.foreign_runs.json_pieces import MOST_BYTES, Piece, beginning, decode, json_document, json_lines
from rollouthub.analysis.foreign_runs.run_format import Unreadable


def span_objects(
    path: Path, listed: Collection[str] = (), most_objects: int | None = None
) -> Iterator[tuple[dict[str, Any], int, int] | Unreadable]:
    """Yield the objects of a file with the bytes that each takes and its end in the file."""
    for number, (place, piece) in enumerate(_pieces(path, listed)):
        if number == most_objects:
            return
        if piece.raw is None:
            yield Unreadable(place, f"it has more than {MOST_BYTES:,} bytes", piece.end)
            continue
        try:
            value = decode(piece.raw)
        except ValueError as error:
            yield Unreadable(place, str(error), piece.end)
            continue
        if isinstance(value, dict):
            yield value, len(piece.raw), piece.end
        else:
            yield Unreadable(place, "it is no object", piece.end)


def _pieces(path: Path, listed: Collection[str]) -> Iterator[tuple[str, Piece]]:
    head = beginning(path, 4096).lstrip()
    is_named = any(head.startswith(b"{") and head[1:].lstrip().startswith(f'"{name}"'.encode()) for name in listed)
    if head.startswith(b"[") or is_named:
        elements = (piece for piece in json_document(path, listed) if piece.is_element)
        yield from ((f"entry {number}", piece) for number, piece in enumerate(elements, 1))
    else:
        yield from ((f"line {number}", piece) for number, piece in json_lines(path))
