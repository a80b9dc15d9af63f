"""Unpacks compressed bodies in pieces of limited size, so that a small one cannot become a large one unnoticed."""

import zlib

from rollouthub.http.no_answer import BrokenExchange

ENCODINGS = frozenset({"gzip", "x-gzip", "deflate"})
"""Values of `Content-Encoding` that can be unpacked."""
_MOST_AT_ONCE = 256 * 2**10
_MOST_EMPTY = 100
"""Most parts without a byte in them, one after another: each takes time, and adds nothing to any bound."""
_GZIP_OR_ZLIB, _BARE = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS


class Inflater:
    """Unpacks one body."""

    def __init__(self) -> None:
        self._packed: bytes = b""
        self._has_more = False
        """Whether the last piece was as large as allowed, so that more of it may wait inside zlib."""
        self._is_begun = False
        self._empty_parts = 0
        self._state = zlib.decompressobj(_GZIP_OR_ZLIB)

    def feed(self, packed: bytes) -> None:
        """Add bytes of the body; all pieces must have been taken."""
        self._packed = packed

    def piece(self) -> bytes:
        """The next unpacked bytes; empty if more packed ones are needed.

        Raises:
            BrokenExchange: what came is not compressed in a known way.
        """
        try:
            while self._packed or self._has_more:
                if self._state.eof or not self._is_begun:  # gzip allows one part after another
                    self._is_begun = True
                    self._state = zlib.decompressobj(_GZIP_OR_ZLIB if _has_header(self._packed[0]) else _BARE)
                piece = self._state.decompress(self._packed, _MOST_AT_ONCE)
                self._packed = self._state.unconsumed_tail or self._state.unused_data
                self._has_more = len(piece) == _MOST_AT_ONCE and not self._state.eof
                if piece:
                    self._empty_parts = 0
                    return piece
                self._empty_parts += self._state.eof
                if self._empty_parts > _MOST_EMPTY:
                    raise BrokenExchange("the answer is packed in parts that hold nothing")
        except zlib.error as error:
            raise BrokenExchange(f"the answer cannot be unpacked: {error}") from None
        return b""

    def end(self) -> None:
        """Check that the body ended where its compression does.

        Raises:
            BrokenExchange: it did not.
        """
        if self._is_begun and not self._state.eof:
            raise BrokenExchange("the connection was closed before the answer was whole")


def _has_header(first: int) -> bool:
    """Whether a body that begins with this byte has gzip's or zlib's header; servers send `deflate` also without."""
    return first == 0x1F or first & 0x0F == zlib.DEFLATED
