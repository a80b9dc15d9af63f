"""Reads request bodies, bounded in size and time each, and in number and memory together; slow ones are dropped
first.
"""

from collections.abc import Awaitable, MutableMapping
from dataclasses import dataclass
from typing import Any

import anyio

from rollouthub.errors import HubError
from rollouthub.hosting.server.control_http import MAX_BODY_BYTES
from rollouthub.http.asgi import Receive, Scope, read_body
from rollouthub.trainers.reward_server.request_places import Leaving

BODY_SECONDS = 60.0
"""Most seconds from a request's headers to the end of its body."""
MOST_ARRIVING = 1024
"""Most request bodies that are being received at once."""
MAX_ARRIVING_BYTES = 512 * 2**20
"""Most bytes of memory for all bodies that are being received."""
_PIECE_BYTES = 64
"""Memory in bytes that each received piece costs beside its content: one-byte pieces cost more than they carry."""


class TooSlow(HubError):
    """A body did not arrive in time, or was dropped to make room."""


@dataclass(eq=False)
class _Arrival:
    """A request body that is being received."""

    patience: anyio.CancelScope
    size: int = 0
    problem: HubError | None = None
    """Why the body was dropped; None if it was not, or only ran out of time."""


class Arrivals:
    """Receives the bodies of requests.

    If number or memory is exhausted, the body that has been arriving for longest is dropped, so that clients that send
    slowly, or stop, block no other client.
    """

    def __init__(
        self, seconds: float = BODY_SECONDS, most: int = MOST_ARRIVING, max_bytes: int = MAX_ARRIVING_BYTES
    ) -> None:
        self._seconds, self._most, self._max_bytes = seconds, most, max_bytes
        self._under_way: dict[_Arrival, None] = {}
        """The bodies being received, oldest first."""
        self._bytes = 0
        self._is_closed = False

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """The complete body of a request.

        Raises:
            TooLarge: the body, or its announced length, exceeds `MAX_BODY_BYTES`.
            TooSlow: the body did not arrive in time, or was dropped to make room.
            Leaving: the server is stopping.
        """
        if self._is_closed:
            raise Leaving
        arrival = _Arrival(anyio.CancelScope(deadline=anyio.current_time() + self._seconds))

        def counted() -> Awaitable[MutableMapping[str, Any]]:
            return self._received(arrival, receive)

        with arrival.patience:
            self._under_way[arrival] = None
            self._make_room()
            try:
                return await read_body(scope, counted, MAX_BODY_BYTES)
            finally:
                self._forget(arrival)
        raise arrival.problem or TooSlow(f"the body did not arrive within {self._seconds:g} seconds; send it at once")

    def close(self) -> None:
        """Receive no more bodies: requests whose body is arriving get the error that the server is stopping."""
        self._is_closed = True
        for arrival in tuple(self._under_way):
            self._give_up(arrival, Leaving())

    async def _received(self, arrival: _Arrival, receive: Receive) -> MutableMapping[str, Any]:
        message = await receive()
        if arrival in self._under_way:
            size = len(message.get("body", b"")) + _PIECE_BYTES
            arrival.size += size
            self._bytes += size
            self._make_room()
        return message

    def _make_room(self) -> None:
        while len(self._under_way) > self._most or self._bytes > self._max_bytes:
            problem = TooSlow("too many bodies are on their way, and this one was the slowest; send it again")
            self._give_up(next(iter(self._under_way)), problem)

    def _give_up(self, arrival: _Arrival, problem: HubError) -> None:
        arrival.problem = problem
        arrival.patience.cancel()
        self._forget(arrival)

    def _forget(self, arrival: _Arrival) -> None:
        if arrival in self._under_way:
            del self._under_way[arrival]
            self._bytes -= arrival.size
