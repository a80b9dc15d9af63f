"""The byte format of a bundle: a gzip stream of a POSIX tar archive, of which there is exactly one for the same files.

Compressors differ between machines (zlib, zlib-ng and their versions give other bytes for the same input), so the
deflate blocks are stored ones (RFC 1951, 3.2.4). Any `tar` can read the archive, its bytes depend on the files only,
and its content is never larger than the archive.
"""

import hashlib
import zlib
from tarfile import REGTYPE, USTAR_FORMAT, TarInfo
from typing import BinaryIO

from rollouthub_registry.bundle.bundle_error import BundleRefused

GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""The gzip header (RFC 1952): deflate, no flags, no time, no extra flags, unknown system."""
BLOCK = 512
"""Bytes of a tar block."""
END = bytes(2 * BLOCK)
STORED = 65_535
"""Bytes in a stored block; every block but the last has this many."""


def header(path: str, size: int, is_executable: bool) -> bytes:
    """The tar header of a file.

    Raises:
        BundleRefused: the path is too long for a tar header.
    """
    info = TarInfo(path)
    info.size, info.mode, info.type = size, 0o755 if is_executable else 0o644, REGTYPE
    try:
        return info.tobuf(USTAR_FORMAT, encoding="utf-8", errors="strict")
    except ValueError as error:
        raise BundleRefused(f"the path {path!r} does not fit a tar header; shorten its parts") from error


def padding(size: int) -> int:
    """Number of zero bytes after a file's content."""
    return -size % BLOCK


class StoredGzip:
    """Writes a gzip stream of stored blocks, and computes the digest of the bytes written."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink, self._pending = sink, bytearray()
        self._crc, self._length = 0, 0
        self._hash, self.size = hashlib.sha256(), 0
        self._emit(GZIP_HEADER)

    def write(self, chunk: bytes) -> None:
        """Take the next bytes of the archive."""
        self._crc, self._length = zlib.crc32(chunk, self._crc), self._length + len(chunk)
        self._pending += chunk
        while len(self._pending) > STORED:
            self._block(self._pending[:STORED], is_last=False)
            del self._pending[:STORED]

    def finish(self) -> str:
        """Write the rest and the trailer; returns the digest `sha256:…` of all bytes written."""
        self._block(self._pending, is_last=True)
        self._emit(self._crc.to_bytes(4, "little") + (self._length & 0xFFFFFFFF).to_bytes(4, "little"))
        return f"sha256:{self._hash.hexdigest()}"

    def _block(self, content: bytearray, is_last: bool) -> None:
        self._emit(stored_header(len(content), is_last) + content)

    def _emit(self, chunk: bytes) -> None:
        self._sink.write(chunk)
        self._hash.update(chunk)
        self.size += len(chunk)


def stored_header(length: int, is_last: bool) -> bytes:
    """The header of a stored block."""
    return bytes([is_last]) + length.to_bytes(2, "little") + (length ^ 0xFFFF).to_bytes(2, "little")


class StoredGunzip:
    """Reads a stream written by `StoredGzip`, and refuses any other byte sequence."""

    def __init__(self, source: BinaryIO, longest: int) -> None:
        """Start to read; `longest` is the maximum length of the stream in bytes."""
        self._source, self._left = source, longest
        self._crc, self._length, self._at = 0, 0, 0
        self._block, self._is_last = b"", False
        self._hash, self.size = hashlib.sha256(), 0
        start = self._take(len(GZIP_HEADER), "its header")
        if start[:2] != GZIP_HEADER[:2]:
            raise BundleRefused("it is no bundle: it does not begin like a gzip file")
        if start != GZIP_HEADER:
            raise BundleRefused("its gzip header is not a bundle's; build it with rollouthub")

    def read(self, size: int) -> bytes:
        """The next `size` bytes of the archive, exactly.

        Raises:
            BundleRefused: the stream ends before, or is not one written by `StoredGzip`.
        """
        parts: list[bytes] = []
        while size:
            if self._at == len(self._block):
                self._next_block()
            part = self._block[self._at : self._at + size]
            self._at, size = self._at + len(part), size - len(part)
            parts.append(part)
        chunk = b"".join(parts)
        self._crc, self._length = zlib.crc32(chunk, self._crc), self._length + len(chunk)
        return chunk

    def finish(self) -> str:
        """Check that the stream ends here and its checksums are right; returns the digest `sha256:…` of all bytes read.

        Raises:
            BundleRefused: a checksum is wrong, or more bytes follow.
        """
        if self._at < len(self._block) or not self._is_last:
            raise BundleRefused("it holds something after the archive's end")
        trailer = self._take(8, "its checksum")
        if trailer != self._crc.to_bytes(4, "little") + (self._length & 0xFFFFFFFF).to_bytes(4, "little"):
            raise BundleRefused("its checksum does not match its content: it was damaged or changed")
        if self._source.read(1):
            raise BundleRefused("it holds something after the archive's end")
        return f"sha256:{self._hash.hexdigest()}"

    def _next_block(self) -> None:
        if self._is_last:
            raise BundleRefused("the archive in it is cut short")
        start = self._take(5, "a block")
        if start[0] >> 1:
            raise BundleRefused("its content is compressed; a bundle's never is, so that it cannot unpack to a bomb")
        self._is_last = bool(start[0])
        length = int.from_bytes(start[1:3], "little")
        is_full = length == STORED or (self._is_last and length > 0)
        if start != stored_header(length, self._is_last) or not is_full:
            raise BundleRefused("a block of it is damaged")
        self._block, self._at = self._take(length, "a block"), 0

    def _take(self, size: int, what: str) -> bytes:
        self._left -= size
        if self._left < 0:
            raise BundleRefused("it is larger than a bundle may be")
        chunk = self._source.read(size)
        if len(chunk) < size:
            raise BundleRefused(f"it is cut short in {what}: download or build it again")
        self._hash.update(chunk)
        self.size += size
        return chunk
