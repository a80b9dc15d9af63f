"""Reads and writes files of lines, plain or gzipped, in pieces, so that memory does not grow with the file.

A gzipped output is a sequence of gzip members, each of which ends with a line; after a kill, only the last can be torn.
"""

import contextlib
import errno
import io
import os
import stat
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rollouthub.errors import ConfigError, DataError, RunDirectoryError, StoreError
from rollouthub.store.atomic_files import check_output

try:
    import fcntl
except ImportError:  # no flock on this platform: two writers of one file are then the caller's to avoid
    fcntl = None

PIECE = 1 << 18
STDIO = "-"
_GZIP_BITS = 31
_FLUSH_BYTES = 1 << 16


def is_gzip(name: str) -> bool:
    """Whether a file's name ends in `.gz`."""
    return name.lower().endswith(".gz")


@dataclass(frozen=True)
class InputLines:
    """The lines of an input, in pieces; a piece may be empty. Reading blocks."""

    pieces: Iterator[list[bytes]]
    pipe: int | None = None
    """The file descriptor to wait for before each piece is read; None for a regular file, which never blocks for
    long.
    """


@contextmanager
def input_lines(name: str) -> Generator[InputLines]:
    """Open the lines of a file, or of stdin for `-`.

    Raises:
        DataError: the file cannot be read, or its gzip data is damaged.
    """
    try:
        # Unbuffered: what is read of a pipe is what is there, and no read waits for more.
        stream = io.FileIO(0, closefd=False) if name == STDIO else io.FileIO(name)
        is_file = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except FileNotFoundError as error:
        raise DataError("there is no such file", name) from error
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror or error}", name) from error
    with stream:
        yield InputLines(_lines(_pieces(stream, name)), None if is_file else stream.fileno())


def _pieces(stream: io.FileIO, name: str) -> Iterator[bytes]:
    try:
        if is_gzip(name):
            for data, _ in _gunzipped(stream):
                yield data
        else:
            while piece := stream.read(PIECE):
                yield piece
    except (EOFError, zlib.error) as error:
        raise DataError(f"the gzip file is damaged: {error}", name) from error
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror or error}", name) from error


def _lines(pieces: Iterator[bytes]) -> Iterator[list[bytes]]:
    rest: list[bytes] = []
    for piece in pieces:
        head, newline, tail = piece.rpartition(b"\n")
        if not newline:
            rest.append(piece)
            yield []
            continue
        yield (b"".join(rest) + head).split(b"\n")
        rest = [tail] if tail else []
    if rest:
        yield [b"".join(rest)]


def _gunzipped(stream: io.FileIO) -> Iterator[tuple[bytes, int | None]]:
    """Yield pieces of the decompressed contents, each with None; a member's last piece comes with the member's end in
    the file, in bytes.

    Raises:
        EOFError: the file ends within a member.
        zlib.error: the file is not gzip data.
    """
    position, member, data = 0, None, b""
    while True:
        if not data and not (data := stream.read(PIECE) or b""):
            if member is not None:
                raise EOFError("it ends too early")
            return
        if member is None:
            member = zlib.decompressobj(_GZIP_BITS)
        position += len(data)
        contents = member.decompress(data)
        data = b""
        if member.eof:
            data = member.unused_data.lstrip(b"\0") if not member.unused_data.strip(b"\0") else member.unused_data
            position -= len(member.unused_data)
            member = None
            yield contents, position
        elif contents:
            yield contents, None


def whole_lines(stream: io.FileIO, name: str) -> Iterator[tuple[bytes, int]]:
    """Yield the complete lines of an output from its start, each with the byte offset at which the file may be cut off
    after it.

    Of a gzipped output, only lines of complete members are yielded.
    """
    if not is_gzip(name):
        end, rest = 0, b""
        while piece := stream.read(PIECE):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                end += len(line) + 1
                yield line, end
        return
    contents: list[bytes] = []
    with contextlib.suppress(EOFError, zlib.error):
        for data, end in _gunzipped(stream):
            contents.append(data)
            if end is not None:
                for line in b"".join(contents).split(b"\n")[:-1]:
                    yield line, end
                contents = []


class LineWriter:
    """Writes lines in batches to a file, a device or stdout; each gzipped batch is a gzip member."""

    def __init__(self, stream: BinaryIO | io.FileIO, name: str) -> None:
        self._stream, self._name = stream, name
        self._waiting: list[bytes] = []
        self._bytes = 0

    def write(self, line: bytes) -> None:
        """Buffer a line, which includes its newline; write the buffer once it is large enough.

        Raises:
            StoreError: the buffer could not be written.
        """
        self._waiting.append(line)
        self._bytes += len(line)
        if self._bytes >= _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines.

        Raises:
            StoreError: the lines could not be written.
            BrokenPipeError: the reading end of the pipe is closed.
        """
        if not self._waiting:
            return
        data = memoryview(self._packed(b"".join(self._waiting)))
        self._waiting, self._bytes = [], 0
        try:
            while data:
                data = data[self._stream.write(data) or 0 :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise StoreError(
                f"could not write to {self._name}: {error.strerror or error}; what is written stays: "
                "make room, then go on with --resume"
            ) from error

    def _packed(self, data: bytes) -> bytes:
        if not is_gzip(self._name):
            return data
        packer = zlib.compressobj(wbits=_GZIP_BITS)
        return packer.compress(data) + packer.flush()

    def sync(self) -> None:
        """Write the buffered lines, and fsync where the output supports it."""
        self.flush()
        with contextlib.suppress(OSError):
            os.fsync(self._stream.fileno())


def check_output_file(name: str, *, resume: bool) -> None:
    """Check beforehand whether `output_file` could open an output.

    Raises:
        ConfigError: it could not.
    """
    if name == STDIO:
        return
    if not resume and Path(name).is_file():
        raise _taken(name)
    check_output(Path(name))


@contextmanager
def output_file(name: str, *, resume: bool) -> Generator[io.FileIO]:
    """Open an output for reading and appending; an existing file is refused unless `resume` is set.

    Raises:
        ConfigError: the file exists already, or cannot be created.
        RunDirectoryError: another process is writing the file.
    """
    if name == STDIO:
        yield io.FileIO(1, "wb", closefd=False)
        return
    path = Path(name)
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            with path.open("wb", buffering=0) as device:
                yield device
            return
        stream = io.FileIO(path, "r+" if resume and path.exists() else "x+")
    except FileExistsError:
        raise _taken(name) from None
    except OSError as error:
        raise ConfigError(f"cannot write {name}: {error.strerror or error}; name another file with -o") from error
    with stream:
        _lock(stream, name)
        yield stream


def _taken(name: str) -> ConfigError:
    return ConfigError(f"{name} is there already; add --resume to go on with it, or name another file with -o")


def _lock(stream: io.FileIO, name: str) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            raise RunDirectoryError(f"{name} is being written by another process; wait until it ends") from None
