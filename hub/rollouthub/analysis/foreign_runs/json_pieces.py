"""JSON of any size in pieces: the members of one large document, and the lines of a file of lines.

Memory stays at the largest single piece, which is bounded; a larger one is passed over and comes back as None.
"""

import gzip
import json
import re
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec

from rollouthub.errors import ConfigError
from rollouthub.plugins.plain_files import read_plain
from rollouthub.text import one_line

MOST_BYTES = 128 * 2**20
"""Most bytes of one piece."""
_PIECE = 1 << 18
_GZIP_RATIO, _GZIP_BYTES = 200, 2**30
"""A gzip file may hold this many times its size, and this much more, before it is refused."""
_BOM = b"\xef\xbb\xbf"
_MARK = re.compile(rb'["{}\[\]]')
_WORDS = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_SPACE = re.compile(rb"[ \t\r\n]*")
_SCALAR = re.compile(rb"[^,\]}\s]*")


class Piece(NamedTuple):
    """One value of a document or one line of a file."""

    name: str
    """The member that it is, or is an element of; empty in a list and for a line."""
    raw: bytes | None
    """Its JSON; None if it has more than the most bytes."""
    end: int
    """How many bytes of the file had been read after it."""
    is_element: bool = False


class JsonDocument:
    """Reads one JSON document from a file: the members of an object, or the elements of a list."""

    def __init__(self, stream: BinaryIO, path: Path, most: int = MOST_BYTES) -> None:
        self._stream, self._path, self._most = stream, path, most
        self._buffer, self._at, self._read = bytearray(), 0, 0

    def pieces(self, listed: Collection[str] = ()) -> Iterator[Piece]:
        """Yield the members of the document; of a member in `listed` that is a list, its elements one by one.

        Raises:
            ConfigError: the file ends too early, or is no JSON.
        """
        if self._peek() == b"[":
            yield from self._elements("")
            return
        self._expect(b"{")
        while self._peek() != b"}":
            key = self._value()
            try:
                name = json.loads(key or b"")
            except ValueError:
                raise self._broken("a member without a name") from None
            self._expect(b":")
            if name in listed and self._peek() == b"[":
                yield from self._elements(str(name))
            else:
                yield Piece(str(name), self._value(), self._end)
            self._comma(b"}")

    def _elements(self, name: str) -> Iterator[Piece]:
        self._expect(b"[")
        while self._peek() != b"]":
            yield Piece(name, self._value(), self._end, is_element=True)
            self._comma(b"]")
        self._at += 1

    @property
    def _end(self) -> int:
        return self._read - len(self._buffer) + self._at

    def _comma(self, closing: bytes) -> None:
        found = self._peek()
        if found == b",":
            self._at += 1
            if self._peek() == closing:
                raise self._broken("a comma before the end")
        elif found != closing:
            raise self._broken(f"{found!r} where a comma belongs")

    def _expect(self, mark: bytes) -> None:
        found = self._peek()
        if found != mark:
            raise self._broken(f"{found!r} where {mark!r} belongs")
        self._at += 1

    def _peek(self) -> bytes:
        """The next byte that is no space; the position is at it."""
        while True:
            found = _SPACE.match(self._buffer, self._at)
            self._at = found.end() if found else self._at
            del found
            if self._at < len(self._buffer):
                return bytes(self._buffer[self._at : self._at + 1])
            del self._buffer[: self._at]
            self._at = 0
            self._fill()

    def _value(self) -> bytes | None:
        """The value at the position as bytes; None if it is too large."""
        first = self._peek()
        del self._buffer[: self._at]
        self._at, self._is_large = 0, False
        if first in b"{[":
            self._pass_nested()
        elif first == b'"':
            self._at = 1
            self._pass_words()
        else:
            self._pass_scalar()
        return None if self._is_large else bytes(self._buffer[: self._at])

    def _pass_nested(self) -> None:
        depth = 0
        while True:
            found = _MARK.search(self._buffer, self._at)
            if found is None:
                self._at = len(self._buffer)
                self._fill_value()
                continue
            self._at, mark = found.end(), self._buffer[found.start()]
            del found
            if mark == 0x22:
                self._pass_words()
            elif mark in (0x7B, 0x5B):
                depth += 1
            else:
                depth -= 1
                if depth == 0:
                    return

    def _pass_words(self) -> None:
        """Go behind the quote that ends the text at the position."""
        while True:
            found = _WORDS.match(self._buffer, self._at)
            self._at = found.end() if found else self._at
            del found
            if self._at < len(self._buffer) and self._buffer[self._at] == 0x22:
                self._at += 1
                return
            self._fill_value()

    def _pass_scalar(self) -> None:
        while True:
            found = _SCALAR.match(self._buffer, self._at)
            self._at = found.end() if found else self._at
            del found
            if self._at < len(self._buffer):
                if self._at == 0:
                    raise self._broken("a value is missing")
                return
            try:
                self._fill_value()
            except ConfigError:
                if self._at:
                    return
                raise

    def _fill_value(self) -> None:
        """Read on within a value; of one that is too large, what was passed is dropped."""
        if len(self._buffer) > self._most:
            self._is_large = True
        if self._is_large:
            kept = 1 if self._at else 0
            del self._buffer[: self._at - kept]
            self._at = kept
        self._fill()

    def _fill(self) -> None:
        more = self._stream.read(_PIECE)
        if not more:
            raise ConfigError(
                f"{str(self._path)!r} ends within its JSON, after {self._read:,} bytes; it is cut short, or still "
                "being written: read it again when its tool is done"
            )
        if self._read == 0:
            more = more.removeprefix(_BOM)
        self._read += len(more)
        self._buffer += more

    def _broken(self, what: str) -> ConfigError:
        return ConfigError(f"{str(self._path)!r} is no JSON: {what}, at byte {self._end:,}")


def json_document(path: Path, listed: Collection[str] = (), most: int = MOST_BYTES) -> Iterator[Piece]:
    """The members of a JSON file, see `JsonDocument.pieces`.

    Raises:
        ConfigError: the file cannot be read, or is no JSON.
    """
    with open_source(path) as stream:
        yield from JsonDocument(stream, path, most).pieces(listed)


def json_lines(path: Path, most: int = MOST_BYTES) -> Iterator[tuple[int, Piece]]:
    """The lines of a file, plain or gzipped, with their numbers from 1; blank lines are left out.

    Raises:
        ConfigError: the file cannot be read.
    """
    with open_source(path) as file:
        size = path.stat().st_size
        stream: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        number = done = 0
        while True:
            try:
                line: bytes = stream.readline(most + 1)
                is_large = len(line) > most
                done += len(line)
                while is_large and line and not line.endswith(b"\n"):
                    line = stream.readline(_PIECE)
                    done += len(line)
            except (OSError, EOFError, zlib.error) as error:
                raise ConfigError(f"{str(path)!r} cannot be read on after line {number}: {error}") from error
            if not line and not is_large:
                return
            if stream is not file and done > _GZIP_RATIO * size + _GZIP_BYTES:
                raise ConfigError(f"{str(path)!r} unpacks to more than {done:,} bytes from {size:,}; it is refused")
            number += 1
            line = line.strip().removeprefix(_BOM)
            if line or is_large:
                yield number, Piece("", None if is_large else line, file.tell())


def open_source(path: Path) -> BinaryIO:
    """A foreign file, open for reading; the caller closes it. The links in the path of a source were followed before
    (`SourceStamp`), so that a link here is one in a folder of strangers.

    Raises:
        ConfigError: it cannot be read, or is a link, a pipe or a device.
    """
    try:
        return read_plain(path)
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error


def beginning(path: Path, most: int = 1 << 16) -> bytes:
    """The first bytes of a file, unpacked if it is gzipped; empty where there is nothing to read."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            stream: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
            return stream.read(most).removeprefix(_BOM)
    except (OSError, EOFError, zlib.error):
        return b""


_DECODERS: dict[Any, Any] = {}


def decode(raw: bytes, kind: Any = Any) -> Any:
    """A value from JSON as Python objects, or as the msgspec type `kind`; also JSON with NaN, as many tools write it.

    Raises:
        ValueError: it is no JSON, nested too deeply, or of another form; says where.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS.setdefault(kind, msgspec.json.Decoder(kind))
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise ValueError(one_line(str(error), 200)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(json.loads(raw), kind)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    except (ValueError, msgspec.ValidationError) as error:
        raise ValueError(one_line(str(error), 200)) from error


def first_object(path: Path) -> dict[str, Any]:
    """The first line of a file as an object; empty if it is none, or is longer than some kB."""
    head = beginning(path, 1 << 18)
    line = head.partition(b"\n")[0]
    try:
        found = decode(line)
    except ValueError:
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def first_keys(path: Path) -> tuple[str, ...]:
    """The first member names of a JSON document that is an object, as far as its first bytes show them; `[` first if
    it is a list of objects.
    """
    head = beginning(path).lstrip()
    is_list = head.startswith(b"[")
    if is_list:
        head = head[1:].lstrip()
    if not head.startswith(b"{"):
        return ()
    found: list[str] = ["["] if is_list else []
    depth, at = 0, 0
    while (mark := _MARK.search(head, at)) is not None:
        at, sign = mark.end(), mark.group()
        if sign != b'"':
            depth += 1 if sign in b"{[" else -1
            if depth == 0:
                break
            continue
        words = _WORDS.match(head, at)
        end = words.end() if words else at
        if depth == 1 and head[end + 1 : end + 40].lstrip().startswith(b":"):
            found.append(head[at:end].decode(errors="replace"))
        at = end + 1
    return tuple(found)
