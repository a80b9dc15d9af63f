"""The source of commands: a terminal, or a prepared list."""

import os
from collections.abc import Iterable
from typing import Protocol

import anyio

from rollouthub.text import plain
from rollouthub_tui.text.output import Output

_MOST_BYTES = 65536


class CommandInput(Protocol):
    """Lines, one by one."""

    is_prompted: bool
    """Whether somebody is there who can be asked, and reads a page at a time."""

    def next(self) -> str | None:
        """The next command; None where there is none any more. Blocking."""
        ...

    async def answer(self, question: str) -> str | None:
        """What is said to a question; None where nobody answers."""
        ...

    async def interruption(self) -> str | None:
        """Wait until a line is typed."""
        ...


class Typed:
    """Lines that a terminal edits itself: it sends whole ones, and what it echoes is what was typed.

    The `readline` library would draw: it moves the cursor, and switches modes of the terminal at every prompt.
    """

    is_prompted = True

    def __init__(self, terminal: int, output: Output) -> None:
        """`terminal` is the number of its open file."""
        self._terminal, self._output = terminal, output

    def next(self) -> str | None:
        """Ask for a command."""
        self._output.ask("> ")
        return self._read()

    async def answer(self, question: str) -> str | None:
        """Ask, and wait so that Ctrl-C is heard."""
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
    """Commands that were given before; a question is answered by the next of them."""

    is_prompted = False

    def __init__(self, commands: Iterable[str]) -> None:
        self._commands = iter(commands)

    def next(self) -> str | None:
        """The next one."""
        command = next(self._commands, None)
        return None if command is None else command.rstrip("\r\n")

    async def answer(self, question: str) -> str | None:
        """The next one answers."""
        return self.next()

    async def interruption(self) -> str | None:
        """Nobody types."""
        await anyio.sleep_forever()
