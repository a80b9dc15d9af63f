"""A terminal driver that survives a closed window or a broken connection."""

from contextlib import suppress
from typing import IO, cast

from textual.drivers.linux_driver import LinuxDriver


class _Lasting:
    """The file of a terminal that may be gone: then output is dropped."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write the text, as far as the terminal accepts it."""
        try:
            return self._file.write(text)
        except (OSError, ValueError):
            return len(text)

    def flush(self) -> None:
        """Flush the output, if the terminal accepts it."""
        with suppress(OSError, ValueError):
            self._file.flush()

    def fileno(self) -> int:
        """The terminal's file descriptor."""
        return self._file.fileno()

    def isatty(self) -> bool:
        """Whether it was a terminal when the app began."""
        return self._file.isatty()


class LastingDriver(LinuxDriver):
    """Textual's driver, except that errors of the terminal do not end its writing thread, which would hang the app's
    exit.
    """

    def start_application_mode(self) -> None:
        """Take over the terminal, at the start and after another program has used it."""
        if not isinstance(self._file, _Lasting):
            self._file = cast(IO[str], _Lasting(self._file))
        super().start_application_mode()
