"""Lines over this process's stdin and stdout, without a thread and without holding up the event loop."""

import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio

_PIECE = 65536
_SURE = 4096
"""What a pipe that can be written to takes without blocking: PIPE_BUF."""


class LineTooLong(Exception):
    """A line over its bound; it was read to its end and dropped."""


def keep_to_ourselves() -> tuple[int, int]:
    """Stdin and stdout under other numbers, which no child process inherits.

    What an environment prints goes to stderr instead, and what it reads is empty: the pipes carry our lines alone.
    """
    sys.stdout.flush()
    kept = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return kept


async def read_lines(number: int, limit: int) -> AsyncGenerator[bytes | LineTooLong]:
    """The lines of a file descriptor to its end, without their newlines; empty ones are left out."""
    rest = bytearray()
    is_dropping = False
    while True:
        await _when(anyio.wait_readable, number)
        piece = os.read(number, _PIECE)
        if not piece:
            break
        rest += piece
        *lines, last = bytes(rest).split(b"\n") if b"\n" in piece else [bytes(rest)]
        for line in lines:
            if is_dropping or len(line) > limit:
                is_dropping = False
                yield LineTooLong()
            elif line.strip():
                yield line
        if lines:
            rest = bytearray(last)
        if len(rest) > limit:
            is_dropping = True
            rest.clear()
    if rest.strip() and not is_dropping:
        yield bytes(rest)


async def write_line(number: int, line: bytes) -> None:
    """Write a line; the caller must write one at a time.

    Raises:
        OSError: the reading end is closed.
    """
    left = memoryview(line + b"\n")
    while left:
        await _when(anyio.wait_writable, number)
        left = left[os.write(number, left[:_SURE]) :]


async def _when(ready: Callable[[int], Awaitable[None]], number: int) -> None:
    """Wait for a pipe or a terminal; a plain file, which cannot be waited for, is always ready."""
    try:
        await ready(number)
    except PermissionError:
        return
