"""Large JSON in pieces: members, elements and lines, whatever the chunks, bounded, and refused where it is broken."""

import gzip
import io
import json
import tracemalloc
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouthub.analysis.foreign_runs.json_pieces import JsonDocument, decode, first_keys, json_document, json_lines
from rollouthub.errors import ConfigError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\{}[],:\n é', max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='k"\\]', max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


class Dribble(io.RawIOBase):
    """A file that gives a few bytes at a time, so that every place of a document is a border once."""

    def __init__(self, content: bytes, size: int) -> None:
        self._rest, self._size = content, size

    def read(self, _: int = -1) -> bytes:
        """The next bytes."""
        piece, self._rest = self._rest[: self._size], self._rest[self._size :]
        return piece


def pieces(content: bytes, size: int, *listed: str, most: int = 1 << 20) -> list[tuple[str, bytes | None]]:
    """The names and bytes of a document's pieces, read so many bytes at a time."""
    stream: BinaryIO = Dribble(content, size)  # pyright: ignore[reportAssignmentType]  # it is only read
    return [(piece.name, piece.raw) for piece in JsonDocument(stream, Path("x.json"), most).pieces(listed)]


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=5), st.integers(1, 7), st.booleans())
def test_members_are_those_of_the_whole_document(document: dict[str, object], size: int, is_indented: bool) -> None:
    content = json.dumps(document, indent=2 if is_indented else None).encode()
    found = [(name, json.loads(raw or b"")) for name, raw in pieces(content, size)]
    assert found == list(document.items())


@settings(deadline=None, max_examples=100)
@given(st.lists(VALUES, max_size=6), st.integers(1, 7))
def test_elements_come_one_by_one(listed: list[object], size: int) -> None:
    content = json.dumps({"head": 1, "samples": listed, "tail": [2]}).encode()
    found = [(name, json.loads(raw or b"")) for name, raw in pieces(content, size, "samples")]
    assert found == [("head", 1), *(("samples", each) for each in listed), ("tail", [2])]


def test_a_piece_that_is_too_large_is_passed_over_in_little_memory() -> None:
    long = "x" * 3000 + '"\\' * 500
    content = json.dumps({"samples": [1, {"text": [long]}, 2], "words": long, "end": 3}).encode()
    found = pieces(content, 64, "samples", most=1000)
    assert [(name, raw if raw is None else json.loads(raw)) for name, raw in found] == [
        ("samples", 1), ("samples", None), ("samples", 2), ("words", None), ("end", 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": [1, 2',
        b'{"a": "x',
        b'{"a"',
        b'{"a": 1,}',
        b'{"a" 1}',
        b'{"a": }',
        b'{"a": 1 "b": 2}',
        b"hello",
        b"",
        b"[1,",
    ],
)
def test_what_is_no_document_is_refused_with_a_place(content: bytes) -> None:
    with pytest.raises(ConfigError, match=r"is no JSON|ends within its JSON"):
        pieces(content, 3)


def test_deep_nesting_costs_no_recursion_and_is_refused_when_decoded(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text('{"a": ' + "[" * 200_000 + "]" * 200_000 + "}")
    [piece] = json_document(path)
    assert piece.raw is not None
    with pytest.raises(ValueError, match="nested too deeply"):
        decode(piece.raw)


def test_lines_are_numbered_and_long_ones_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n' + b"x" * 5000 + b'\n{"b": 2}')
    found = [(number, piece.raw) for number, piece in json_lines(path, most=1000)]
    assert found == [(1, b'{"a": 1}'), (3, None), (4, b'{"b": 2}')]


def test_a_gzip_bomb_ends_with_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollouthub.analysis.foreign_runs.json_pieces._GZIP_BYTES", 1 << 20)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b"0" * (64 << 20)))
    with pytest.raises(ConfigError, match=r"unpacks to more than .* it is refused"):
        list(json_lines(path, most=1000))


def test_damaged_gzip_is_refused_after_what_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(b'{"a": %d}\n' % number for number in range(200_000)))[:-2000])
    with pytest.raises(ConfigError, match="cannot be read on after line"):
        list(json_lines(path))


def test_the_first_members_are_seen_without_reading_the_file(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    path.write_text('{"version": 2, "status": "ok", "eval": {"task": "{\\"x\\": 1}"}, "samples": [' + "1," * 100_000)
    assert first_keys(path) == ("version", "status", "eval", "samples")
    path.write_text('[{"op_name": "a", "inputs": {"trace_id": 1}, "trace_id": "b"}]')
    assert first_keys(path) == ("[", "op_name", "inputs", "trace_id")


def test_spaces_without_end_take_no_memory(tmp_path: Path) -> None:
    document = JsonDocument(io.BytesIO(b'{"a":' + b" " * 5_000_000 + b"1}"), tmp_path / "x.json")
    tracemalloc.start()
    try:
        assert [piece.raw for piece in document.pieces()] == [b"1"]
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
