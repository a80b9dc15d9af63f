"""What control planes share: HTTP and JSON behind a credential, each error with its status."""

import hmac
import logging
from collections.abc import Mapping
from typing import ClassVar, TypeVar
from urllib.parse import parse_qsl, unquote

from pydantic import BaseModel, ValidationError

from rollouthub.errors import (
    CredentialError,
    HubError,
    NotOffered,
    TaskError,
    UnknownNameError,
    UsageError,
    describe,
    invalid_fields,
)
from rollouthub.hosting.control_wire import ControlProblem, Failure, problem_of
from rollouthub.hosting.server.event_log import EventLog
from rollouthub.http.asgi import (
    Guard,
    Receive,
    Scope,
    Send,
    TooLarge,
    answer,
    header,
    note_holder,
    read_body,
    until_gone,
)

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 64 * 2**20
KEEP_ALIVE_SECONDS = 15.0
"""Of silence, after which a stream of events says that it is still there."""
METRICS_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
MEDIA_BYTES = b"application/octet-stream"
_EVENT_STREAM = b"text/event-stream"
_HEADERS = {408: [(b"connection", b"close")], 429: [(b"retry-after", b"1")]}
"""Of refusals: the rest of a body that is too slow is not waited for."""

BodyT = TypeVar("BodyT", bound=BaseModel)
Query = dict[str, str]


class NoRoute(Exception):
    """Nothing is at this address."""


class WrongMethod(Exception):
    """Something is there, for another method."""


class ControlHttp:
    """An ASGI application behind a credential; subclasses say what is at its addresses."""

    statuses: ClassVar[Mapping[type[HubError], int]] = {}
    """HTTP statuses of errors of the plane's own."""

    def __init__(self, token: str, guard: Guard | None) -> None:
        """`guard` checks Host and Origin; None where a unix socket keeps browsers out."""
        self._guard = guard
        self._credential = b"Bearer " + token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        parts = [unquote(part) for part in scope["raw_path"].decode("latin-1").split("/")[1:]]
        try:
            refusal = None if self._guard is None else self._guard.refusal(scope)
            if refusal is not None:
                await self._refuse(send, refusal, UsageError("the request names a foreign Host or Origin"))
            elif parts == ["health"]:
                await answer(send, 200, b'{"status":"ok"}')
            elif not self.admits(scope):
                error = CredentialError("the control plane needs its own credential, as `Authorization: Bearer`")
                await self._refuse(send, 401, error)
            else:
                note_holder(scope, self._credential)
                await self.serve(parts, scope, receive, send)
        except NoRoute:
            await self._refuse(send, 404, UsageError(f"there is nothing at {scope['method']} {scope['path'][:200]!r}"))
        except WrongMethod:
            error = UsageError(f"{scope['path'][:200]!r} does not take {scope['method']}")
            await self._refuse(send, 405, error)
        except TooLarge:
            # What is still to come is read and dropped: a client that sends to a closed connection never sees this.
            await self._refuse(send, 413, UsageError(f"the body is larger than {MAX_BODY_BYTES >> 20} MiB"))
        except HubError as error:
            await self._refuse(send, self._status(error), error)
        except Exception as error:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            await self._refuse(send, 500, TaskError(f"the server failed: {describe(error)}"))

    def admits(self, scope: Scope) -> bool:
        """Whether a request shows the credential."""
        return hmac.compare_digest(header(scope, b"authorization") or b"", self._credential)

    async def serve(self, parts: list[str], scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of a client that holds the credential; `parts` are those of its path.

        Raises:
            HubError: answered with its status.
        """
        raise NoRoute

    def problem(self, error: HubError) -> ControlProblem:
        """An error as its caller gets it."""
        return problem_of(error)

    def _status(self, error: HubError) -> int:
        for kind, status in self.statuses.items():
            if isinstance(error, kind):
                return status
        match error:
            case UnknownNameError():
                return 404
            case NotOffered():
                return 501
            case CredentialError():
                return 401
            case UsageError():
                return 400
            case _:
                return 500

    async def _refuse(self, send: Send, status: int, error: HubError) -> None:
        failure = Failure(error=self.problem(error))
        await answer(send, status, failure.model_dump_json().encode(), headers=_HEADERS.get(status, ()))


def json_of(model: BaseModel) -> bytes:
    """A success."""
    return model.model_dump_json(by_alias=True).encode()


def need(scope: Scope, method: str) -> None:
    """Take this method alone."""
    if scope["method"] != method:
        raise WrongMethod


def query_of(scope: Scope, *known: str) -> Query:
    """The query's parameters, none of them unknown or twice.

    Raises:
        UsageError: one is.
    """
    found: Query = {}
    for name, value in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True):
        if name not in known:
            raise UsageError(f"unknown parameter {name!r}; there are: {', '.join(known)}")
        if name in found:
            raise UsageError(f"parameter {name!r} is given twice")
        found[name] = value
    return found


def integer(query: Query, name: str, default: int = 0) -> int:
    """A parameter that is a number.

    Raises:
        UsageError: the value is no integer.
    """
    text = query.get(name)
    if text is None:
        return default
    if not (text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 20):
        raise UsageError(f"{name} = {text[:100]!r} is no integer")
    return int(text)


async def body_of(scope: Scope, receive: Receive, kind: type[BodyT], most_bytes: int | None = None) -> BodyT:
    """The body of a POST, checked.

    Raises:
        UsageError: says what is wrong with it, and where.
    """
    need(scope, "POST")
    return parsed(await read_body(scope, receive, most_bytes or MAX_BODY_BYTES), kind)


def parsed(body: bytes, kind: type[BodyT]) -> BodyT:
    """A body, checked.

    Raises:
        UsageError: says what is wrong with it, and where.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise UsageError(f"the body is no {kind.__name__}: {invalid_fields(error, 'body', 5)}") from None


def first_event(scope: Scope) -> int:
    """After which event a stream is to begin: what the client saw last."""
    last = header(scope, b"last-event-id")
    query = query_of(scope, "after") if last is None else {"after": last.decode("latin-1")}
    return integer(query, "after")


async def send_events(events: EventLog, after: int, scope: Scope, send: Send) -> None:
    """Send events as they come, to their end."""
    headers = [(b"content-type", _EVENT_STREAM), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    with until_gone(scope):
        async for chunk in events.since(after, KEEP_ALIVE_SECONDS):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
