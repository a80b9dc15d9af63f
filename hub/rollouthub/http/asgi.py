"""ASGI helpers of the control and agent planes: read a body up to a limit, answer, and notice that the client
disconnected.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, MutableMapping
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

import anyio

from rollouthub.event_loop import is_crowded_message

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

CONNECTION = "rollouthub.connection"
"""Key in the `state` of a request's scope that holds its `ClientConnection`."""
JSON = b"application/json"
_BYTES_AT_ONCE = 256 * 2**10


class TooLarge(Exception):
    """A request body larger than its limit."""


class TooCrowded(TooLarge):
    """A request body with more values than the limit."""


class Cancellable(Protocol):
    """Work done for a client, such as a cancel scope."""

    def cancel(self) -> None:
        """Cancel the work, because the client has disconnected."""
        ...


class ClientConnection(Protocol):
    """A client's connection; cancels registered work when the client disconnects."""

    def known_as(self, holder: bytes) -> None:
        """Record the token, or its digest, that a request on this connection presented."""
        ...

    def watch(self, work: Cancellable) -> None:
        """Register work to cancel when the client disconnects."""
        ...

    def forget(self, work: Cancellable) -> None:
        """Unregister the work."""
        ...


def connection_of(scope: Scope) -> ClientConnection | None:
    """The connection that a request came over; None where the server does not track connections."""
    return scope.get("state", {}).get(CONNECTION)


def note_holder(scope: Scope, holder: bytes) -> None:
    """Record on a request's connection which token it presented: at the limit of connections, those without a token
    are closed first.
    """
    connection = connection_of(scope)
    if connection is not None:
        connection.known_as(holder)


@contextmanager
def until_gone(scope: Scope) -> Generator[anyio.CancelScope]:
    """Run the block until the client disconnects; the block is then cancelled without an error."""
    connection = connection_of(scope)
    with anyio.CancelScope() as patience:
        if connection is None:
            yield patience
            return
        connection.watch(patience)
        try:
            yield patience
        finally:
            connection.forget(patience)


def header(scope: Scope, name: bytes) -> bytes | None:
    """The first value of a request's header; None where it is missing."""
    for key, value in scope["headers"]:
        if key == name:
            return value
    return None


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Read a request's body.

    Raises:
        TooLarge: the body, or its announced length, is larger than `limit` bytes.
    """
    declared = header(scope, b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise TooLarge
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        if len(body) > limit:
            raise TooLarge
        return body
    chunks, size = [body], len(body)
    while message.get("more_body", False):
        message = await receive()
        chunk: bytes = message.get("body", b"")
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise TooLarge
    return b"".join(chunks)


async def read_message(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Read a request's JSON body.

    Raises:
        TooLarge: the body, or its announced length, is larger than `limit` bytes.
        TooCrowded: the body holds more JSON values than the limit.
    """
    body = await read_body(scope, receive, limit)
    if await is_crowded_message(body):
        raise TooCrowded
    return body


def again(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` that first delivers a body already read, then whatever `receive` delivers."""
    is_given = False

    async def give() -> MutableMapping[str, Any]:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return give


async def answer(send: Send, status: int, body: bytes = b"", kind: bytes = JSON, headers: Headers = ()) -> None:
    """Send a response."""
    sent = [(b"content-length", b"%d" % len(body)), *headers]
    if body:
        sent.append((b"content-type", kind))
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send_body(send, body, is_last=True)


async def send_body(send: Send, body: bytes, *, is_last: bool) -> None:
    """Send a part of a response's body; a large part is split, so that sending keeps pace with the client."""
    for start in range(0, max(len(body), 1), _BYTES_AT_ONCE):
        end = start + _BYTES_AT_ONCE
        is_end = is_last and end >= len(body)
        await send({"type": "http.response.body", "body": body[start:end], "more_body": not is_end})


class Guard:
    """Accepts a request only for one of the listener's own hosts, and only from its own origins or without an origin.

    This blocks browsers after DNS rebinding, and pages of other sites.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        """`hosts` are names without a port; every port is accepted."""
        self.hosts = tuple(dict.fromkeys(hosts))
        self._known: set[bytes] = set()

    def refusal(self, scope: Scope) -> int | None:
        """The status to refuse a request with: 421 for a foreign Host, 403 for a foreign Origin; None to accept it."""
        has_host = False
        for key, value in scope["headers"]:
            if key == b"host":
                if has_host or not self._is_ours(value, b""):  # of two, another reader may heed the other
                    return 421
                has_host = True
            elif key == b"origin" and not self._is_ours(value, b"http://"):
                return 403
        return None if has_host else 421

    def _is_ours(self, value: bytes, scheme: bytes) -> bool:
        if value in self._known:
            return True
        if scheme and not value.startswith((b"http://", b"https://")):
            return False
        try:
            parts = urlsplit((value if scheme else b"//" + value).decode("ascii"))
            is_ours = parts.hostname in self.hosts and not parts.path and parts.username is None
            _ = parts.port  # raises on what is no port
        except ValueError:
            return False
        if is_ours and len(self._known) < 64:
            self._known.add(value)
        return is_ours
