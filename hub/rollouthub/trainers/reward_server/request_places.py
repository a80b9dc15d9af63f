"""Places for requests that are being answered: so many, and so much memory, at once."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from rollouthub.errors import HubError

MAX_HELD_BYTES = 2**31
"""Of memory that the requests being answered take, by `weight_of`."""
MOST_MARKS = 2_000_000
"""Commas and opening brackets of one body. They bound what JSON can list, and are counted before anything is decoded:
64 MiB of empty lists would take seconds to read, in which nobody else is answered, and gigabytes to hold."""
_MARK_BYTES = 64
_SENT_SECONDS = 1.0
"""For the last answers to be written."""

T = TypeVar("T")


class Busy(HubError):
    """As many requests are being answered as there may be."""


class Leaving(HubError):
    """The server leaves, and begins nothing any more."""

    def __init__(self) -> None:
        super().__init__("the server is leaving; ask again once it is back, or ask another")


class TooMuch(HubError):
    """One request asks for more than is answered at once."""


def weight_of(body: bytes) -> int:
    """The memory that a request takes, in bytes and as a rough bound: its body, its texts, and what it lists.

    Raises:
        TooMuch: it lists more than a request may.
    """
    marks = sum(body.count(mark) for mark in (b",", b"[", b"{"))
    if marks > MOST_MARKS:
        raise TooMuch(f"the body has more than {MOST_MARKS} commas and opening brackets; send fewer answers at once")
    return 2 * len(body) + _MARK_BYTES * marks


class RequestPlaces:
    """The requests that are being answered."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._taken: set[anyio.CancelScope] = set()
        self._is_closed = False
        self._change = anyio.Event()

    async def within(self, body: bytes, work: Callable[[bytes], Awaitable[T]]) -> T:
        """Work on a request's body in a place of its own.

        Raises:
            Busy: there is none.
            TooMuch: as `weight_of`.
            Leaving: the server leaves, or left while this was being worked on.
        """
        if self._is_closed:
            raise Leaving
        weight = weight_of(body)
        if len(self._taken) >= self._most or self._held + weight > MAX_HELD_BYTES:
            raise Busy("as many requests are being answered as there may be; ask again")
        with anyio.CancelScope() as place:
            self._taken.add(place)
            self._held += weight
            try:
                return await work(body)
            finally:
                self._held -= weight
                self._taken.discard(place)
                self._change.set()
        raise Leaving

    async def close(self, seconds: float) -> None:
        """Begin nothing more; what is being answered has so long to end, and is told then that the server leaves."""
        self._is_closed = True
        with anyio.move_on_after(seconds):
            await self._emptied()
        for place in self._taken:
            place.cancel()
        with anyio.move_on_after(_SENT_SECONDS):
            await self._emptied()

    async def _emptied(self) -> None:
        while self._taken:
            self._change = anyio.Event()
            await self._change.wait()
