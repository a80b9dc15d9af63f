"""A program's output, of which the beginning and the end are kept."""


class Capture:
    """Keeps the first and the last half of a limit; counts what it drops."""

    def __init__(self, limit: int) -> None:
        self._head_room, self._tail_room = limit - limit // 2, limit // 2
        self._head, self._tail = bytearray(), bytearray()
        self._total = 0

    def add(self, piece: bytes) -> None:
        """Take the next piece."""
        self._total += len(piece)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece and self._tail_room:
            self._tail += piece[-self._tail_room :]
            if len(self._tail) > 2 * self._tail_room + 65_536:
                del self._tail[: -self._tail_room]

    def kept(self) -> tuple[bytes, int, int]:
        """What was kept, where in it the gap is, and how many bytes fell into it."""
        tail = self._tail[-self._tail_room :] if self._tail_room else b""
        return bytes(self._head + tail), len(self._head), self._total - len(self._head) - len(tail)
