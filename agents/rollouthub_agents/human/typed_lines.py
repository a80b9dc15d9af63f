"""Reads typed lines from stdin without blocking the event loop."""

import os

import anyio

_PIECE = 65536


class Lines:
    """Lines read from a terminal, a pipe or a file; waiting for a line can be cancelled."""

    def __init__(self, number: int) -> None:
        self._number, self._rest = number, b""

    @property
    def is_terminal(self) -> bool:
        """Whether the input is a terminal."""
        try:
            return os.isatty(self._number)
        except OSError:
            return False

    async def next(self) -> str | None:
        """The next line without its line break; None at the end. A terminal may give further lines after Ctrl-D."""
        while b"\n" not in self._rest:
            piece = await self._piece()
            if not piece:
                last, self._rest = self._rest, b""
                return _text(last) if last else None
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return _text(line)

    async def _piece(self) -> bytes:
        try:
            await anyio.wait_readable(self._number)
        except PermissionError:  # a plain file cannot be waited for: it is always ready
            await anyio.lowlevel.checkpoint()
        try:
            return os.read(self._number, _PIECE)
        except OSError:  # a terminal that has been hung up
            return b""


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")
