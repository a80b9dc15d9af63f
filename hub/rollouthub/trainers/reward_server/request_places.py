"""Limits on requests being answered at once: their number and their memory."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from rollouthub.errors import HubError

MAX_HELD_BYTES = 2**31
"""Most bytes of memory, estimated by `weight_of`, of all requests being answered."""
MOST_MARKS = 2_000_000
"""Most commas and opening brackets in one body. They bound the size of the decoded JSON and are counted before
decoding: 64 MiB of empty lists would block the server for seconds and take gigabytes of memory.
"""
_MARK_BYTES = 64
_SENT_SECONDS = 1.0
"""Seconds that the last answers have to be sent."""

T = TypeVar("T")


class Busy(HubError):
    """The maximum of requests is being answered already."""


class Leaving(HubError):
    """The server is stopping and accepts no more requests."""

    def __init__(self) -> None:
        super().__init__("the server is leaving; ask again once it is back, or ask another")


class TooMuch(HubError):
    """A single request lists more than the server answers at once."""


def weight_of(body: bytes) -> int:
    """A rough upper estimate of the memory in bytes that answering a request takes, from its body.

    Raises:
        TooMuch: the body has more commas and brackets than `MOST_MARKS`.
    """
    marks = sum(body.count(mark) for mark in (b",", b"[", b"{"))
    if marks > MOST_MARKS:
        raise TooMuch(f"the body has more than {MOST_MARKS} commas and opening brackets; send fewer answers at once")
    return 2 * len(body) + _MARK_BYTES * marks


class RequestPlaces:
    """The requests that are being answered, and their estimated memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._taken: set[anyio.CancelScope] = set()
        self._is_closed = False
        self._change = anyio.Event()

    async def within(self, body: bytes, work: Callable[[bytes], Awaitable[T]]) -> T:
        """Run `work` on a request's body, counted against the limits.

        Raises:
            Busy: the number or memory of requests is at its limit.
            TooMuch: as `weight_of`.
            Leaving: the server is stopping, or stopped while `work` ran.
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
        """Accept no more requests; those being answered have `seconds` to finish, then they are cancelled."""
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
