"""The little of HTTP both planes need: reading a bounded body, answering, and seeing a client leave."""

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
"""Where a request's scope, in its `state`, holds the connection it came by."""
JSON = b"application/json"
_BYTES_AT_ONCE = 256 * 2**10


class TooLarge(Exception):
    """A request body over its bound."""


class TooCrowded(TooLarge):
    """A request body that holds more values than are read."""


class Cancellable(Protocol):
    """What is done for a client: a cancel scope, or more."""

    def cancel(self) -> None:
        """The client has left."""
        ...


class ClientConnection(Protocol):
    """A client's connection, as far as those care who work for it."""

    def known_as(self, holder: bytes) -> None:
        """A request by it showed this token, or its digest."""
        ...

    def watch(self, work: Cancellable) -> None:
        """Cancel the work when the client leaves."""
        ...

    def forget(self, work: Cancellable) -> None:
        """Stop watching for it."""
        ...


def connection_of(scope: Scope) -> ClientConnection | None:
    """The connection a request came by."""
    return scope.get("state", {}).get(CONNECTION)


def note_holder(scope: Scope, holder: bytes) -> None:
    """Tell a request's connection whose token it showed: where connections are many, those without one go first."""
    connection = connection_of(scope)
    if connection is not None:
        connection.known_as(holder)


@contextmanager
def until_gone(scope: Scope) -> Generator[anyio.CancelScope]:
    """Work for a client for as long as it is there; left behind quietly when it leaves."""
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
    """A request's header; the first of several."""
    for key, value in scope["headers"]:
        if key == name:
            return value
    return None


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """A request's body.

    Raises:
        TooLarge: it is larger than `limit`, or says so.
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
    """A request's body, which is JSON.

    Raises:
        TooLarge: it is larger than `limit`, or says so.
        TooCrowded: it holds more values than are read.
    """
    body = await read_body(scope, receive, limit)
    if await is_crowded_message(body):
        raise TooCrowded
    return body


def again(body: bytes, receive: Receive) -> Receive:
    """A `receive` for a body that was read already."""
    is_given = False

    async def give() -> MutableMapping[str, Any]:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return give


async def answer(send: Send, status: int, body: bytes = b"", kind: bytes = JSON, headers: Headers = ()) -> None:
    """Answer a request."""
    sent = [(b"content-length", b"%d" % len(body)), *headers]
    if body:
        sent.append((b"content-type", kind))
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send_body(send, body, is_last=True)


async def send_body(send: Send, body: bytes, *, is_last: bool) -> None:
    """Send a part of an answer's body; a large one piecemeal, as fast as the client reads."""
    for start in range(0, max(len(body), 1), _BYTES_AT_ONCE):
        end = start + _BYTES_AT_ONCE
        is_end = is_last and end >= len(body)
        await send({"type": "http.response.body", "body": body[start:end], "more_body": not is_end})


class Guard:
    """Whom a listener answers: requests for one of its own hosts, from one of its own origins or none.

    A browser that a name was rebound for, or a page from elsewhere, is neither.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        """`hosts` are names without a port; any port of theirs is fine."""
        self.hosts = tuple(dict.fromkeys(hosts))
        self._known: set[bytes] = set()

    def refusal(self, scope: Scope) -> int | None:
        """The status to refuse a request with: 421 for a foreign Host, 403 for a foreign Origin."""
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
