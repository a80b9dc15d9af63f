"""Reads another tool's run for a command, and shows on stderr how far it is."""

import sys
import time
from pathlib import Path

from rollouthub.text import plain_name

_AFTER_SECONDS, _EVERY_SECONDS = 1.0, 0.2
_ERASE = "\r\x1b[2K"


class _ReadingLine:
    """One line that is drawn over itself, on a terminal alone, and only if the reading takes a while."""

    def __init__(self, path: Path) -> None:
        self._name, self._next, self._is_drawn = plain_name(path.name), time.monotonic() + _AFTER_SECONDS, False

    def show(self, rollouts: int, position: int, length: int) -> None:
        """Draw the line anew if it is time."""
        if (now := time.monotonic()) < self._next or not sys.stderr.isatty():
            return
        self._next, self._is_drawn = now + _EVERY_SECONDS, True
        share = f", {min(position / length, 1):.0%}" if length else ""
        sys.stderr.write(f"{_ERASE}reading {self._name}: {rollouts:,} rollouts{share}")
        sys.stderr.flush()

    def clear(self) -> None:
        """Leave nothing of it."""
        if self._is_drawn:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()


def read_with_progress(path: Path) -> Path:
    """Return the run directory of another tool's run, read to its end.

    Raises:
        ConfigError: no format recognises it, or it cannot be read.
    """
    from rollouthub.analysis.foreign_runs.open_foreign import read_whole

    line = _ReadingLine(path)
    try:
        return read_whole(path, line.show)
    finally:
        line.clear()
