"""A terminal driver that survives a closed window or a broken connection."""

from contextlib import suppress
from typing import IO, cast

from textual.drivers.linux_driver import LinuxDriver


class _Lasting:
    """A terminal's file. What it does not take any more is dropped: nobody sees it."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write what can be written."""
        try:
            return self._file.write(text)
        except (OSError, ValueError):
            return len(text)

    def flush(self) -> None:
        """Have it shown, where it can be."""
        with suppress(OSError, ValueError):
            self._file.flush()

    def fileno(self) -> int:
        """Of the terminal."""
        return self._file.fileno()

    def isatty(self) -> bool:
        """Whether it was one."""
        return self._file.isatty()


class LastingDriver(LinuxDriver):
    """Textual's, whose writing thread ends at the first error, and the app then waits for it and never leaves."""

    def start_application_mode(self) -> None:
        """Take the terminal, at first and each time that another program gave it back."""
        if not isinstance(self._file, _Lasting):
            self._file = cast(IO[str], _Lasting(self._file))
        super().start_application_mode()
