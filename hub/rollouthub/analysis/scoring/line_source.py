"""Hands the lines of an input to concurrent workers; waiting for a slow pipe can be cancelled."""

from collections import deque
from dataclasses import dataclass

import anyio
import anyio.to_thread

from rollouthub.analysis.scoring.line_files import InputLines


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One input line that is not blank."""

    place: int
    """Index of the line among the lines that are not blank, from 0."""
    number: int
    """Number of the line in the file, from 1."""
    raw: bytes


class LineSource:
    """The lines of an input up to a limit, until they end or `stop` is called."""

    def __init__(self, source: InputLines, limit: int | None = None) -> None:
        self._input, self._limit = source, limit
        self._lines: deque[bytes] = deque()
        self._number = self._taken = 0
        self._is_over = False
        self._reading = anyio.Lock()
        self._scope: anyio.CancelScope | None = None

    def stop(self) -> None:
        """Hand out no more lines, and stop waiting for input."""
        self._is_over = True
        if self._scope is not None:
            self._scope.cancel()

    async def next(self) -> SourceLine | None:
        """Return the next line; None when there are no more.

        Raises:
            DataError: the input cannot be read any further.
        """
        while not self._is_over:
            while self._lines:
                raw = self._lines.popleft()
                self._number += 1
                if not raw.strip():
                    continue
                if self._taken == self._limit:
                    self._is_over = True
                    return None
                self._taken += 1
                return SourceLine(self._taken - 1, self._number, raw)
            async with self._reading:
                if not self._lines and not self._is_over:
                    await self._read()
        return None

    async def _read(self) -> None:
        lines: list[bytes] | None = None
        with anyio.CancelScope() as self._scope:
            if self._input.pipe is not None:
                # Waited for here: a thread that waits for a silent pipe would keep the process from leaving.
                await anyio.wait_readable(self._input.pipe)
            lines = await anyio.to_thread.run_sync(next, self._input.pieces, None)
        self._scope = None
        if lines is None:
            self._is_over = True
        else:
            self._lines.extend(lines)
