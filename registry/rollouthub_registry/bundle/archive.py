"""Writes and reads bundle archives file by file, refusing whatever a bundle must not hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from rollouthub_registry.bundle.bundle_error import BundleRefused
from rollouthub_registry.bundle.encoding import BLOCK, END, StoredGunzip, StoredGzip, header, padding
from rollouthub_registry.bundle.file_selection import SourceFile, Tally
from rollouthub_registry.bundle.limits import ARCHIVE_BYTES, CHUNK_BYTES
from rollouthub_registry.bundle.secrets import SecretScan
from rollouthub_registry.bundle.wheel import check_wheel, is_wheel_path

_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"5": "a folder of its own",
    b"6": "a pipe",
    b"S": "a sparse file",
}


def write_archive(sources: Sequence[SourceFile], sink: BinaryIO) -> tuple[str, int]:
    """Write files as a bundle, in the given order; returns the archive's digest and its size in bytes.

    Raises:
        BundleRefused: a file holds a secret, or changes while it is read.
    """
    out = StoredGzip(sink)
    for source in sources:
        out.write(header(source.path, source.size, source.is_executable))
        for chunk in _chunks(source):
            out.write(chunk)
        out.write(bytes(padding(source.size)))
    out.write(END)
    return out.finish(), out.size


def _chunks(source: SourceFile) -> Iterator[bytes]:
    scan, left = SecretScan(source.path), source.size
    with source.file.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            scan.feed(chunk)
            left -= len(chunk)
            if left < 0:
                break
            yield chunk
    if left:
        raise BundleRefused(f"{source.path!r} changed while it was read; build again when nothing writes there")


@dataclass
class Member:
    """A file in an archive, whose content can be read once."""

    path: str
    size: int
    is_executable: bool
    chunks: Iterator[bytes] = field(repr=False)


def read_archive(source: BinaryIO) -> "ArchiveReader":
    """Open a bundle for reading.

    Raises:
        BundleRefused: the file does not begin like a bundle.
    """
    return ArchiveReader(StoredGunzip(source, ARCHIVE_BYTES))


class ArchiveReader:
    """Reads an archive once, from begin to end; nothing read is validated until `digest` is set."""

    def __init__(self, stream: StoredGunzip) -> None:
        self._stream, self._tally, self._last = stream, Tally(), b""
        self._wheels = 0
        self.digest: str | None = None
        """Digest of all bytes; None until the archive was read and validated to its end."""

    @property
    def size(self) -> int:
        """Bytes read so far."""
        return self._stream.size

    def members(self) -> Iterator[Member]:
        """Every file, in order; content that the caller does not read is validated all the same.

        Raises:
            BundleRefused: the archive is not one that a build could have made.
        """
        while (block := self._stream.read(BLOCK)) != bytes(BLOCK):
            member = self._member(block)
            yield member
            for _ in member.chunks:
                pass
        if self._stream.read(BLOCK) != bytes(BLOCK):
            raise BundleRefused("the archive in it does not end as a bundle's does")
        self.digest = self._stream.finish()

    def _member(self, block: bytes) -> Member:
        path, size, is_executable = _parsed(block)
        self._tally.add(path, size)
        if path.encode() <= self._last:
            raise BundleRefused(f"{path!r} is not in the order of a bundle's files; build it with rollouthub")
        self._last = path.encode()
        if block != header(path, size, is_executable):
            raise BundleRefused(f"the header of {path!r} is not a bundle's; build it with rollouthub")
        if is_wheel_path(path):
            self._wheels += 1
            if self._wheels > 1:
                raise BundleRefused(f"{path!r} is a second wheel; a bundle holds one")
        return Member(path, size, is_executable, self._checked(path, size))

    def _checked(self, path: str, size: int) -> Iterator[bytes]:
        scan, left, wheel = SecretScan(path), size, bytearray()
        while left:
            chunk = self._stream.read(min(left, CHUNK_BYTES))
            left -= len(chunk)
            scan.feed(chunk)
            if is_wheel_path(path):
                wheel += chunk
            yield chunk
        if any(self._stream.read(padding(size))):
            raise BundleRefused(f"something is hidden after {path!r}")
        if is_wheel_path(path):
            check_wheel(path.rpartition("/")[2], bytes(wheel))


def _parsed(block: bytes) -> tuple[str, int, bool]:
    """The path, the size, and whether the file is executable; the caller must check that `header` gives the same
    bytes.
    """
    name, prefix = (block[start:end].split(b"\0", 1)[0] for start, end in ((0, 100), (345, 500)))
    raw = prefix + b"/" + name if prefix else name
    try:
        path = raw.decode()
    except UnicodeDecodeError as error:
        raise BundleRefused(f"the path {raw!r} is not UTF-8") from error
    kind = block[156:157]
    if kind != b"0":
        raise BundleRefused(f"{path!r} is {_KINDS.get(kind, 'no plain file')}; a bundle holds plain files alone")
    try:
        return path, int(block[124:135], 8), bool(int(block[100:107], 8) & 0o100)
    except ValueError as error:
        raise BundleRefused(f"the header of {path!r} is damaged") from error
