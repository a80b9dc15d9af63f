"""Reads members of a zip file one at a time, each bounded; nothing is unpacked to disk, so names lead nowhere."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from rollouthub.analysis.foreign_runs.json_pieces import MOST_BYTES, open_source
from rollouthub.errors import ConfigError
from rollouthub.plugins.extras import pip_install

_ZSTD = 93
_RATIO, _FREE = 1000, 2**30
"""The members may claim this many times the file's size, and this much more, before the file is refused."""
_MOST_DIRECTORY = 256 * 2**20
_PIECE = 1 << 18
_END, _END64, _LOCAL = b"PK\x05\x06", b"PK\x06\x06", b"PK\x03\x04"


class BoundedZip:
    """A zip file of somebody else's. Its directory is read at once, its members when they are asked for."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            ConfigError: it is no zip file, or claims more than a file of its size may hold.
        """
        self._path = path
        with open_source(path) as file:
            self.size = path.stat().st_size
            _check_directory(file, self.size, path)
            try:
                with zipfile.ZipFile(_ShortReads(file)) as opened:
                    self._members = {info.filename: info for info in opened.infolist()}
                    listed = sum(info.file_size for info in opened.infolist())
            except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, struct.error) as error:
                raise ConfigError(f"{str(path)!r} cannot be read as a zip file: {error}") from error
        if listed > _RATIO * self.size + _FREE:
            raise ConfigError(
                f"{str(path)!r} has {self.size:,} bytes and claims to unpack to {listed:,}; it is refused as a zip bomb"
            )

    @property
    def names(self) -> list[str]:
        """The names of the members, in the order in which they lie in the file."""
        return [info.filename for info in sorted(self._members.values(), key=lambda info: info.header_offset)]

    def end_of(self, name: str) -> int:
        """Where a member ends in the file, about."""
        info = self._members[name]
        return info.header_offset + info.compress_size

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """The bytes of a member.

        Raises:
            ValueError: it has more than `most` bytes, or is damaged.
            ConfigError: it is compressed by a method that this installation does not have.
        """
        info = self._members[name]
        if info.file_size > most:
            raise ValueError(f"it unpacks to {info.file_size:,} bytes, and {most:,} are read at most")
        made = bytearray()
        with open_source(self._path) as file:
            for piece in _unpacked(self._packed(file, info), info.compress_type):
                made += piece
                if len(made) > most:
                    raise ValueError(f"it unpacks to more than {most:,} bytes, though it claims {info.file_size:,}")
        if zlib.crc32(made) != info.CRC:
            raise ValueError("its checksum is wrong: it is damaged")
        return bytes(made)

    def _packed(self, file: BinaryIO, info: zipfile.ZipInfo) -> Iterator[bytes]:
        file.seek(info.header_offset)
        header = file.read(30)
        if len(header) < 30 or header[:4] != _LOCAL or info.flag_bits & 1:
            raise ValueError("it is damaged, or encrypted")
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        file.seek(name_length + extra_length, 1)
        left = info.compress_size
        while left > 0:
            piece = file.read(min(left, _PIECE))
            if not piece:
                raise ValueError("the file is cut short")
            left -= len(piece)
            yield piece


def _unpacked(pieces: Iterator[bytes], method: int) -> Iterator[bytes]:
    if method == zipfile.ZIP_STORED:
        yield from pieces
    elif method == zipfile.ZIP_DEFLATED:
        unpacker = zlib.decompressobj(-15)
        try:
            for piece in pieces:
                while piece:
                    yield unpacker.decompress(piece, _PIECE)
                    piece = unpacker.unconsumed_tail
            yield unpacker.flush()
        except zlib.error as error:
            raise ValueError(f"it is damaged: {error}") from error
    elif method == _ZSTD:
        zstandard = _zstandard()
        try:
            with zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(_PackedStream(pieces)) as unpacker:
                while piece := unpacker.read(_PIECE):  # never more at once, whatever a bomb holds
                    yield piece
        except zstandard.ZstdError as error:
            raise ValueError(f"it is damaged: {error}") from error
    else:
        raise ValueError(f"it is compressed by the unknown method {method}")


class _ShortReads:
    """A file from which no directory above the bound is read, wherever its size is said."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        """The next bytes.

        Raises:
            ValueError: more are asked for than a directory may have.
        """
        if size > _MOST_DIRECTORY:
            raise ValueError(f"it has a directory of {size:,} bytes; more than {_MOST_DIRECTORY:,} are refused")
        return self._file.read(size)


class _PackedStream:
    """Pieces as a stream that is read in the pieces' sizes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def read(self, _: int = -1) -> bytes:
        """The next piece; empty at the end."""
        return next(self._pieces, b"")


def _zstandard() -> Any:
    try:
        return import_module("zstandard")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"this zip file is packed with zstd, as Inspect's newer logs are, and zstandard is not installed: "
            f"{pip_install('foreign-runs')}"
        ) from error


def _check_directory(file: BinaryIO, size: int, path: Path) -> None:
    """Refuse a zip whose directory is too large to be read at once."""
    file.seek(max(0, size - 66_000))
    tail = file.read()
    place = tail.rfind(_END)
    if place < 0 or len(tail) - place < 22:
        raise ConfigError(f"{str(path)!r} has no directory at its end: it is cut short, or still being written")
    (directory,) = struct.unpack("<L", tail[place + 12 : place + 16])
    if directory == 0xFFFFFFFF and (wide := tail.rfind(_END64)) >= 0 and len(tail) - wide >= 48:
        (directory,) = struct.unpack("<Q", tail[wide + 40 : wide + 48])
    if directory > _MOST_DIRECTORY:
        raise ConfigError(
            f"{str(path)!r} has a directory of {directory:,} bytes; more than {_MOST_DIRECTORY:,} are refused"
        )
