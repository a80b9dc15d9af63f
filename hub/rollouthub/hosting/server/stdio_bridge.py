"""The stdio bridge: any MCP client that starts programs plays an episode served over HTTP.

Lines are forwarded as they are; only a message's method and id are looked at, and what its headers must repeat.
The wire: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports.
"""

import base64
import logging
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio
import msgspec
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream
from yarl import URL

from rollouthub.errors import ConfigError
from rollouthub.event_loop import run_async
from rollouthub.hosting.server.stdio_pipe import LineTooLong, read_lines, write_line
from rollouthub.http.exchange import HttpPool, open_pool
from rollouthub.http.no_answer import AnswerTooLarge, AnswerTooSlow, NoAnswer
from rollouthub.http.server_events import EventReader, is_event_stream
from rollouthub.http.whole_answer import WholeAnswer

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 4 * 2**20
ANSWER_SECONDS = 3600.0
"""A server keeps its own, shorter deadlines; this ends the wait for one that is frozen."""
MOST_IN_FLIGHT = 256
GOODBYE_SECONDS = 2.0
_LINES_AHEAD = 64

_PARSE_ERROR, _INVALID, _INTERNAL = -32700, -32600, -32603
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""What the `Mcp-Name` header repeats."""
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

Id = int | str | float | None
Take = Callable[[bytes | LineTooLong, TaskGroup], Awaitable[None]]


class _BridgedParams(msgspec.Struct):
    name: Any = None
    uri: Any = None
    meta: Any = msgspec.field(name="_meta", default=None)
    request_id: Any = msgspec.field(name="requestId", default=None)


class _Message(msgspec.Struct):
    """As much of a JSON-RPC message as matters for passing it on."""

    id: Id | msgspec.UnsetType = msgspec.UNSET
    method: str | None = None
    params: _BridgedParams | None = None

    @property
    def version(self) -> str | None:
        """The protocol version a message of the sessionless era carries itself."""
        meta = self.params.meta if self.params is not None else None
        version: Any = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return version if isinstance(version, str) else None


class _Initialized(msgspec.Struct):
    protocol_version: str | None = msgspec.field(name="protocolVersion", default=None)


class _BridgedResponse(msgspec.Struct):
    id: Id | msgspec.UnsetType = msgspec.UNSET
    result: Any = msgspec.UNSET
    error: Any = msgspec.UNSET


_messages = msgspec.json.Decoder(_Message)
_responses = msgspec.json.Decoder(_BridgedResponse)


class Bridge:
    """One client on stdio, one seat over HTTP."""

    def __init__(self, url: str, pool: HttpPool, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._url, self._pool = URL(url), pool
        self._write, self._writing = write, anyio.Lock()
        self._legacy: dict[str, str] = {}
        """Headers of the session that `initialize` opened."""
        self._calls: dict[Id, tuple[_Message, anyio.CancelScope]] = {}
        self._room = anyio.Semaphore(MOST_IN_FLIGHT)

    async def take(self, line: bytes | LineTooLong, tasks: TaskGroup) -> None:
        """Pass on one line of the client's; requests are answered as they are done."""
        if isinstance(line, LineTooLong):
            await self._say(_failure(None, _INVALID, f"the message is larger than {MAX_LINE_BYTES >> 20} MiB"))
            return
        try:
            message = _messages.decode(line)
        except (msgspec.DecodeError, RecursionError):
            await self._say(_failure(None, _PARSE_ERROR, "the line is no JSON-RPC message"))
            return
        if message.id is msgspec.UNSET or message.method is None:
            await self._notify(message, line)
        elif message.method == "initialize":
            for answer in await self._ask(message, line):  # what follows belongs to the session it opens
                await self._say(answer)
        else:
            await self._room.acquire()
            scope = anyio.CancelScope()
            self._calls[message.id] = message, scope
            tasks.start_soon(self._ask_within, scope, message, line)

    async def _notify(self, message: _Message, line: bytes) -> None:
        if message.method == "notifications/cancelled" and message.params is not None:
            found = self._calls.get(message.params.request_id)
            if found is not None and found[0].version is not None:
                found[1].cancel()  # hanging up is how a request of the sessionless era is cancelled
                return
        with suppress(NoAnswer):
            await self._post(message, line)

    async def _post(self, message: _Message, line: bytes) -> WholeAnswer:
        return await self._pool.exchange("POST", self._url, line, self._headers(message), seconds=ANSWER_SECONDS)

    async def _ask_within(self, scope: anyio.CancelScope, message: _Message, line: bytes) -> None:
        assert message.id is not msgspec.UNSET
        answers: list[bytes] = []
        try:
            with scope:
                answers = await self._ask(message, line)
        finally:
            self._room.release()
            if self._calls.get(message.id, (None, None))[1] is scope:
                del self._calls[message.id]
        # Out of the scope, so that a late cancellation leaves no half a line.
        for answer in answers:
            await self._say(answer)

    async def _ask(self, message: _Message, line: bytes) -> list[bytes]:
        """Send a request; the lines that answer it, or say what became of it."""
        assert message.id is not msgspec.UNSET
        try:
            answer = await self._post(message, line)
        except AnswerTooSlow:
            return [_failure(message.id, _INTERNAL, "the environment server does not answer")]
        except AnswerTooLarge as error:
            return [_failure(message.id, _INTERNAL, f"the environment server: {error}")]
        except NoAnswer as error:
            return [_failure(message.id, _INTERNAL, f"the environment server is gone ({error})")]
        if message.method == "initialize" and answer.status == 200:
            self._begin(answer)
        answers = EventReader().whole(answer.body) if is_event_stream(answer.headers) else [answer.body]
        return _lines(answers, message.id) or [_failure(message.id, _INTERNAL, _refusal(answer.status))]

    def _begin(self, answer: WholeAnswer) -> None:
        self._legacy = {}
        if session := answer.headers.get("mcp-session-id"):
            self._legacy["Mcp-Session-Id"] = session
        with suppress(msgspec.DecodeError, msgspec.ValidationError):
            result = msgspec.convert(_responses.decode(answer.body).result, _Initialized)
            if result.protocol_version:
                self._legacy["MCP-Protocol-Version"] = result.protocol_version

    def _headers(self, message: _Message) -> dict[str, str]:
        version = message.version
        if version is None or message.method is None:
            return _HEADERS if message.method == "initialize" else _HEADERS | self._legacy
        headers = _HEADERS | {"MCP-Protocol-Version": _field(version), "Mcp-Method": _field(message.method)}
        named_by = _NAMED_BY.get(message.method)
        name: Any = getattr(message.params, named_by, None) if named_by else None
        if isinstance(name, str):
            headers["Mcp-Name"] = _field(name)
        return headers

    async def _say(self, line: bytes) -> None:
        async with self._writing:
            await self._write(line)

    async def goodbye(self) -> None:
        """End the session, where there is one."""
        if "Mcp-Session-Id" in self._legacy:
            with anyio.CancelScope(shield=True), suppress(NoAnswer):
                await self._pool.exchange("DELETE", self._url, b"", self._legacy, seconds=GOODBYE_SECONDS)


def _lines(answers: list[bytes], request_id: Id) -> list[bytes]:
    """The server's messages as lines; none where no one of them answers the request."""
    lines: list[bytes] = []
    is_answered = False
    for answer in answers:
        try:
            response = _responses.decode(answer)
        except (msgspec.DecodeError, RecursionError):
            continue
        if response.id == request_id and type(response.id) is type(request_id):
            is_answered = True
        elif response.error is not msgspec.UNSET:
            # Refused before its id was looked at.
            is_answered = True
            answer = msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": response.error})
        if b"\n" in answer or b"\r" in answer:
            answer = msgspec.json.encode(msgspec.json.decode(answer))
        lines.append(answer)
    return lines if is_answered else []


def _failure(request_id: Id, code: int, message: str) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})


def _refusal(status: int) -> str:
    reasons = {
        404: "it knows no such episode; it may be over",
        413: "the message is too large",
        429: "too many at once",
    }
    return f"the environment server refused the message: {reasons.get(status, f'HTTP {status}')}"


def _field(value: str) -> str:
    """Encode a header's value as MCP specifies: plain ASCII is sent as it is, anything else as `=?base64?…?=`.

    A plain value that begins like an encoded one is encoded, too.
    """
    if _PLAIN.fullmatch(value) and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def bridge_stdio(url: str) -> None:
    """Play an episode's seat on stdin and stdout, to the end of stdin.

    Raises:
        ConfigError: the URL is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("the agent URL is none: it looks like http://127.0.0.1:8000/e/TOKEN/mcp")
    run_async(_bridge, url)


async def _bridge(url: str) -> None:
    async with open_bridge(url, partial(write_line, sys.stdout.fileno())) as bridge:
        await carry(bridge.take, sys.stdin.fileno())
        await bridge.goodbye()


@asynccontextmanager
async def open_bridge(url: str, write: Callable[[bytes], Awaitable[None]]) -> AsyncGenerator[Bridge]:
    """A bridge to a seat, with a connection of its own."""
    async with open_pool() as pool:
        yield Bridge(url, pool, write)


async def carry(take: Take, number: int) -> None:
    """Give every line of a file descriptor to `take`, to its end; what is in flight then is cancelled."""
    lines, taken = anyio.create_memory_object_stream[bytes | LineTooLong](_LINES_AHEAD)
    try:
        async with lines, taken, anyio.create_task_group() as tasks:
            tasks.start_soon(_take_all, take, taken, tasks)
            # Read on while requests wait, so that the end of stdin is seen whatever the server does.
            async for line in read_lines(number, MAX_LINE_BYTES):
                await lines.send(line)
            tasks.cancel_scope.cancel()  # nobody is left to read the answers
    except* OSError as group:
        logger.debug("the client is gone: %s", group)


async def _take_all(take: Take, lines: MemoryObjectReceiveStream[bytes | LineTooLong], tasks: TaskGroup) -> None:
    async for line in lines:
        await take(line, tasks)
