"""Sources of commands: a terminal, or a given list."""

import os
from collections.abc import Iterable
from typing import Protocol

import anyio

from rollouthub.text import plain
from rollouthub_tui.text.output import Output

_MOST_BYTES = 65536


class CommandInput(Protocol):
    """A source of commands, one line at a time."""

    is_prompted: bool
    """Whether a person can be asked, and reads page by page."""

    def next(self) -> str | None:
        """The next command; None if there are no more. Blocking."""
        ...

    async def answer(self, question: str) -> str | None:
        """The answer to a question; None if it cannot be answered."""
        ...

    async def interruption(self) -> str | None:
        """Wait until a line is typed, and return it; None if no line will come."""
        ...


class Typed:
    """Lines typed at a terminal, which the terminal itself edits and echoes.

    The `readline` library is not used, since it moves the cursor and switches terminal modes at every prompt.
    """

    is_prompted = True

    def __init__(self, terminal: int, output: Output) -> None:
        """`terminal` is its file descriptor."""
        self._terminal, self._output = terminal, output

    def next(self) -> str | None:
        """Prompt for a command."""
        self._output.ask("> ")
        return self._read()

    async def answer(self, question: str) -> str | None:
        """Ask, and wait for a line in a way that Ctrl-C interrupts."""
        self._output.ask(question)
        return await self.interruption()

    async def interruption(self) -> str | None:
        """Wait for a line."""
        await anyio.wait_readable(self._terminal)
        return self._read()

    def _read(self) -> str | None:
        try:
            typed = os.read(self._terminal, _MOST_BYTES)
        except OSError:  # it was hung up
            return None
        # A key that is no letter, such as an arrow, comes as an escape sequence.
        return plain(typed.decode(errors="replace"), _MOST_BYTES).rstrip("\r\n") if typed else None


class Given:
    """Commands given in advance; a question is answered by the next of them."""

    is_prompted = False

    def __init__(self, commands: Iterable[str]) -> None:
        self._commands = iter(commands)

    def next(self) -> str | None:
        """The next command."""
        command = next(self._commands, None)
        return None if command is None else command.rstrip("\r\n")

    async def answer(self, question: str) -> str | None:
        """The next command, as the answer."""
        return self.next()

    async def interruption(self) -> str | None:
        """Never returns a line, since there is no input."""
        await anyio.sleep_forever()
