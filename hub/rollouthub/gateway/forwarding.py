"""Forwards requests for seats of environments in other processes: bytes pass unchanged, and tool calls are recorded.

Only the fields that a record needs are parsed: a request's method and arguments, and the result of a tool call. MCP
sessions, protocol versions and their headers are left to the client and the environment's server.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
from mcp_types import CallToolResult
from pydantic import ValidationError
from yarl import URL

from rollouthub.engine.external_calls import OutsideCall
from rollouthub.engine.tool_arguments import DEEPEST, TOO_DEEP, is_shallow
from rollouthub.errors import EpisodeStop, TaskError
from rollouthub.event_loop import MOST_VALUES, is_crowded_message
from rollouthub.gateway.exposed_seat import ExposedSeat, stopped
from rollouthub.hosting.local.toolbox import SUBMIT
from rollouthub.hosting.server.agent_plane import BUSY, MAX_BODY_BYTES, MOST_REQUESTS, NOT_FOUND, refusal_of
from rollouthub.http.asgi import Receive, Scope, Send, TooLarge, answer, read_message
from rollouthub.http.exchange import MAX_ANSWER_BYTES, Exchange, HttpPool, open_pool
from rollouthub.http.no_answer import AnswerTooLarge, NoAnswer
from rollouthub.http.server_events import EventReader, is_event_stream
from rollouthub.tools import is_last, text_result, turn_mark

logger = logging.getLogger(__name__)

ANSWER_SECONDS = 3600.0
"""Most seconds to wait for an answer of the environment's server. The server has shorter deadlines of its own; this
one is for a server that hangs.
"""
_PASSED_ON = frozenset(
    {
        b"content-type",
        b"accept",
        b"mcp-session-id",
        b"mcp-protocol-version",
        b"mcp-method",
        b"mcp-name",
        b"last-event-id",
    }
)
"""Request headers that are passed on to the environment's server."""
_PARAMETERS = b"mcp-param-"
_PASSED_BACK = frozenset(
    {"content-type", "mcp-session-id", "mcp-protocol-version", "retry-after", "cache-control", "allow"}
)
_GONE = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"The environment does not answer."}}'
_UNREAD = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"The body is not one JSON-RPC message."}}'

_UNKEPT = f"[not kept: the agent was given a result of more than {MOST_VALUES:,} values]"
"""Text in the record in place of a result with too many values."""


class _ForwardedParams(msgspec.Struct):
    name: Any = None
    arguments: Any = None
    meta: Any = msgspec.field(name="_meta", default=None)

    @property
    def given(self) -> dict[str, Any]:
        """The arguments if they are an object; otherwise empty, and the environment's server refuses them."""
        given: object = self.arguments
        return cast(dict[str, Any], given) if isinstance(given, dict) else {}


class _ForwardedRequest(msgspec.Struct):
    """The fields of a JSON-RPC request that a record needs."""

    id: int | str | float | None = None
    method: str | None = None
    params: _ForwardedParams | None = None


class _ForwardedResponse(msgspec.Struct):
    id: int | str | float | None = None
    result: msgspec.Raw = msgspec.Raw(b"")


class _Error(msgspec.Struct):
    """The field that is read of a tool result which is too large to record."""

    is_error: bool = msgspec.field(name="isError", default=False)


_requests = msgspec.json.Decoder(_ForwardedRequest)
_responses = msgspec.json.Decoder(_ForwardedResponse)
_errors = msgspec.json.Decoder(_Error)


class Forwarder:
    """Forwards requests for exposed seats to their environments' servers."""

    def __init__(self, pool: HttpPool) -> None:
        self._pool = pool

    async def serve(self, exposed: ExposedSeat, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request from a client that has this seat's token."""
        if scope["method"] not in ("POST", "DELETE"):
            await answer(send, 405, headers=[(b"allow", b"POST, DELETE")])
            return
        if exposed.requests >= MOST_REQUESTS:
            await answer(send, 429, BUSY, headers=[(b"retry-after", b"1")])
            return
        exposed.requests += 1
        try:
            body = await read_message(scope, receive, MAX_BODY_BYTES) if scope["method"] == "POST" else b""
            with exposed.while_open(scope):
                await self._forward(exposed, scope, body, send)
                return
            if exposed.is_over:
                await answer(send, 404, NOT_FOUND)
        except TooLarge as error:
            await answer(send, 413, refusal_of(error))
        finally:
            exposed.requests -= 1

    async def _forward(self, exposed: ExposedSeat, scope: Scope, body: bytes, send: Send) -> None:
        request = _read_request(body)
        if request is None and scope["method"] == "POST":
            # Other readers of JSON take more for it, NaN for one: a tool would run that no record tells of.
            await answer(send, 400, _UNREAD)
            return
        call: OutsideCall | None = None
        if request is not None and request.method == "tools/call":
            params = request.params or _ForwardedParams()
            if not is_shallow(params.given, DEEPEST):
                await answer(send, 200, _as_response(request, text_result(TOO_DEEP, is_error=True)))
                return
            try:
                call = exposed.calls.begin(str(params.name), params.given, len(body))
            except EpisodeStop as stop:
                await answer(send, 200, _as_response(request, stopped(stop)))
                return
        passing = _Passing(send)
        try:
            await self._exchange(exposed, scope, body, passing)
        except (NoAnswer, ValueError) as error:
            # Not the error's text: it may hold the address.
            fault = TaskError(f"the environment's server did not answer an agent: {type(error).__name__}")
            if call is not None:
                exposed.calls.lose(call, fault)
            logger.warning("%s", fault)
            await passing.break_off()
            return
        except BaseException as error:
            if call is not None:
                exposed.calls.lose(call, error)
            raise
        if call is not None:
            result = await _result_of(passing.raw, request.id if request is not None else None)
            self._record(exposed, call, result)
        await passing.end()

    async def _exchange(self, exposed: ExposedSeat, scope: Scope, body: bytes, passing: "_Passing") -> None:
        """Send the request to the environment's server, and pass its answer on.

        Raises:
            NoAnswer: there is none, or it is too large.
        """
        url = exposed.forward_url
        assert url is not None
        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in _PASSED_ON or name.startswith(_PARAMETERS)
        }
        async with self._pool.open(
            scope["method"], URL(url, encoded=True), body, headers, seconds=ANSWER_SECONDS
        ) as response:
            await passing.take(response)

    def _record(self, exposed: ExposedSeat, call: OutsideCall, result: CallToolResult | None) -> None:
        if result is None:
            # Refused before any tool ran: nothing to record, and the model's request stays open for another try.
            exposed.calls.lose(call, ValueError("refused"))
            return
        if (call.name == SUBMIT and not result.is_error) or is_last(result):
            exposed.note_submitted()
        exposed.calls.end(call, result)


def _read_request(body: bytes) -> _ForwardedRequest | None:
    try:
        return _requests.decode(body) if body else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


async def _result_of(raw: bytes, request_id: object) -> CallToolResult | None:
    """The tool result in an answer, sent whole or as events; None if there is none."""
    pieces = [raw] if raw[:1] == b"{" else EventReader().whole(raw)
    for piece in reversed(pieces):
        try:
            response = _responses.decode(piece)
            if response.id == request_id and (body := bytes(response.result)):
                if await is_crowded_message(body):
                    return text_result(_UNKEPT, is_error=_errors.decode(body).is_error)
                result = CallToolResult.model_validate_json(body)
                if not is_last(result) and turn_mark(result) is None:
                    result.meta = None  # the protocol's own marks say nothing of the call
                return result
        except (msgspec.DecodeError, ValidationError, UnicodeDecodeError, RecursionError):
            continue
    return None


def _as_response(request: _ForwardedRequest, result: CallToolResult) -> bytes:
    """A tool result of the hub's own as a JSON-RPC response, valid in both MCP protocol versions."""
    body = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request.id, "result": {**body, "resultType": "complete"}})


class _Passing:
    """An answer being passed back: events are sent at once, any other answer is sent whole after it was recorded."""

    def __init__(self, send: Send) -> None:
        self.raw = b""
        self._send = send
        self._status, self._headers = 502, list[tuple[bytes, bytes]]()
        self._is_stream = False

    async def take(self, response: Exchange) -> None:
        """Read the answer to its end.

        Raises:
            NoAnswer: it breaks off, or is too large.
        """
        self._status = response.status
        self._headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in response.headers.items()
            if name in _PASSED_BACK
        ]
        self._is_stream = is_event_stream(response.headers)
        if not self._is_stream:
            self.raw = await response.read(MAX_ANSWER_BYTES)
            return
        await self._start()
        pieces, size = list[bytes](), 0
        while piece := await response.piece():
            pieces.append(piece)
            size += len(piece)
            if size > MAX_ANSWER_BYTES:
                raise AnswerTooLarge(MAX_ANSWER_BYTES)
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        self.raw = b"".join(pieces)

    async def _start(self) -> None:
        await self._send({"type": "http.response.start", "status": self._status, "headers": self._headers})

    async def end(self) -> None:
        """Send the rest of the answer."""
        if self._is_stream:
            await self._send({"type": "http.response.body", "body": b""})
            return
        self._headers.append((b"content-length", b"%d" % len(self.raw)))
        await self._start()
        await self._send({"type": "http.response.body", "body": self.raw})

    async def break_off(self) -> None:
        """Send an error status if the answer has not begun, otherwise end the stream."""
        if self._is_stream:
            await self._send({"type": "http.response.body", "body": b""})
        else:
            await answer(self._send, 502, _GONE)


@asynccontextmanager
async def open_forwarder() -> AsyncGenerator[Forwarder]:
    """Open a forwarder with a connection pool; closed with the context."""
    async with open_pool() as pool:
        yield Forwarder(pool)
