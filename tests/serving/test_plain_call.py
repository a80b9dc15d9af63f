"""A plain call answered without the SDK is answered as the SDK does; what is not plain is the SDK's."""

import json
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, NoReturn

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import (
    Annotations,
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import Field, ValidationError
from starlette.requests import ClientDisconnect

from envhub import tool
from envhub.hosting.episode import CLOSED
from envhub.serving.agent_plane import MAX_BODY_BYTES, AgentPlane, new_user
from envhub.serving.episode import ServedEpisode, ServedSeat
from envhub.serving.http import Guard, Headers
from envhub.serving.metrics import Metrics
from tests.hosting.worlds import CANARY, World, host_of, opened
from tests.serving.desk import META, MODERN

PREFIX = "io.modelcontextprotocol/"
WORD = "ä"
"""The SDK escapes it, which tells who answered."""
TWICE = [(b"x-twice", b"1"), (b"x-twice", b"1")]
"""Harmless, but nothing that a plain call has."""
MARKS = b'01.-eE"\\{}[],: \x00\xc3\xff'
RESULTS: dict[str, Callable[[], CallToolResult]] = {
    "nothing": lambda: CallToolResult(content=[]),
    "words": lambda: CallToolResult(content=[TextContent(text="ä \u2028 \0 😀"), TextContent(text="")]),
    "error": lambda: CallToolResult(content=[TextContent(text="No.")], is_error=True),
    "annotated": lambda: CallToolResult(content=[TextContent(text="x", annotations=Annotations(priority=0.5))]),
    "meta of a block": lambda: CallToolResult(content=[TextContent(text="x", _meta={"a": None})]),
    "image": lambda: CallToolResult(content=[TextContent(text="x"), ImageContent(data="aGk=", mime_type="image/png")]),
    "audio": lambda: CallToolResult(content=[AudioContent(data="aGk=", mime_type="audio/wav")]),
    "link": lambda: CallToolResult(content=[ResourceLink(name="a", uri="file:///a", size=3)]),
    "resource": lambda: CallToolResult(
        content=[EmbeddedResource(resource=TextResourceContents(uri="file:///a", text="x"))]
    ),
    "object": lambda: CallToolResult(content=[], structured_content={"a": None, "b": [1, 2.5, True], "c": {"d": {}}}),
    "list": lambda: CallToolResult(content=[], structured_content=[1, None]),
    "false": lambda: CallToolResult(content=[], structured_content=False),
    "not a number": lambda: CallToolResult(content=[], structured_content={"a": float("nan")}),
    "long number": lambda: CallToolResult(content=[], structured_content={"a": 10**40}),
    "half a character": lambda: CallToolResult(content=[TextContent(text="\ud800")]),
    "no JSON": lambda: CallToolResult(content=[], structured_content={"a": object()}),
    "meta": lambda: CallToolResult(content=[], _meta={"a": 1, PREFIX + "serverInfo": {"name": "other"}}),
    "another type": lambda: CallToolResult(content=[TextContent(text="x")], result_type="x/odd"),
    "asking back": lambda: CallToolResult(content=[TextContent(text="x")], result_type="input_required"),
    "no block": lambda: CallToolResult.model_construct(content=[{"type": "text"}]),  # pyright: ignore[reportArgumentType]  # what a careless author may do
}


class Curios(World):
    """Shows what it is asked for, and counts."""

    shown = 0

    @tool
    async def note(self, text: str, often: float = 1) -> str:
        self.shown += 1
        return f"{text} {often}"

    @tool
    async def show(self, kind: str) -> CallToolResult:
        self.shown += 1
        return RESULTS[kind]()

    @tool
    async def visit(self, region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        self.shown += 1
        return region


class Fault:
    """A seat whose calls break in a way that no environment should."""

    def __init__(self, error: Callable[[], Exception]) -> None:
        self.token, self.messages, self.tools = "fault", (), ()
        self._error = error

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        raise self._error()

    async def reply(self, messages: object) -> NoReturn:
        raise NotImplementedError


class Asked:
    """A request, as it comes from the wire; a plain call but for what is changed."""

    def __init__(self, headers: Mapping[str, str | None] | None = None, **params: Any) -> None:
        call = {"name": "note", "arguments": {"text": WORD}, "_meta": META, **params}
        self.body = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}).encode()
        self.headers: dict[str, str | None] = {
            "host": "127.0.0.1:80",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
            "mcp-name": str(call["name"]),
            **(headers or {}),
        }

    def whose(self, **keys: object) -> "Asked":
        """With these keys of the envelope; those that are `...` left out."""
        whole = {**json.loads(self.body), **keys}
        return self.saying(json.dumps({key: value for key, value in whole.items() if value is not ...}).encode())

    def saying(self, body: bytes) -> "Asked":
        """With another body."""
        self.body = body
        return self

    def put(self, old: str, new: str) -> "Asked":
        """With something of the body replaced."""
        assert old.encode() in self.body
        return self.saying(self.body.replace(old.encode(), new.encode("utf-8", "surrogatepass")))


def _more(**keys: Any) -> dict[str, Any]:
    """The `_meta` of a plain call, with more."""
    return {**META, **{key if "/" in key else PREFIX + key: value for key, value in keys.items()}}


PLAIN = {
    "as most send it": Asked(),
    "id of words": Asked().whose(id="ä-1"),
    "id below zero": Asked().whose(id=-(2**60)),
    "long id": Asked().whose(id=10**30),
    "escaped words": Asked().put('"note"', '"n\\u006fte"'),
    "raw words": Asked().put("\\u00e4", WORD),
    "white space": Asked().put(":", " :\n\t"),
    "the same key twice": Asked().put('"text":', '"text": 1, "text":'),
    "the same part twice": Asked().put('"id": 7', '"id": 7, "id": 8'),
    "a long number": Asked(arguments={"text": WORD, "often": 10**30}),
    "wrong arguments": Asked(arguments={WORD: 1}),
    "an unknown tool": Asked(name=WORD),
    "a name in base64": Asked({"mcp-name": "=?base64?w6Q=?="}, name=WORD),
    "who it is": Asked(_meta=_more(clientInfo={"name": "a", "version": "1"})),
    "nobody": Asked(_meta=_more(clientInfo=None)),
    "what it can": Asked(_meta=_more(clientCapabilities={"roots": {}, "elicitation": {"form": {}}, "new": 1})),
    "another port": Asked({"host": "localhost:8123"}),
    "no port": Asked({"host": "localhost"}),
    "JSON alone": Asked({"accept": "APPLICATION/json;q=0.9"}),
    "a character set": Asked({"content-type": "Application/JSON; charset=utf-8"}),
    "a large argument": Asked(arguments={"text": WORD + "x" * 2**20}),
    "a deep argument": Asked().put('"text"', '"\u00e4": ' + "[" * 200 + "]" * 200 + ', "text"'),
}
"""What is answered without the SDK; each says the word in its answer."""
OTHERS = {
    "a batch": Asked().saying(b"[" + Asked().body + b"]"),
    "a notification": Asked().whose(id=...),
    "an answer": Asked().saying(b'{"jsonrpc": "2.0", "id": 7, "result": {}}'),
    "no JSON": Asked().saying(b"{"),
    "nothing": Asked().saying(b""),
    "null": Asked().saying(b"null"),
    "id null": Asked().whose(id=None),
    "id true": Asked().whose(id=True),
    "id 1.0": Asked().whose(id=1.0),
    "half a character in an id": Asked().put('"id": 7', '"id": "\\ud800"'),
    "another JSON-RPC": Asked().whose(jsonrpc="1.0"),
    "another method": Asked().whose(method="tools/list"),
    "a method of both": Asked({"mcp-method": "tools/list"}).whose(method="tools/list"),
    "more in the envelope": Asked().whose(more=1),
    "params of another kind": Asked().whose(params=[1]),
    "no params": Asked().whose(params=...),
    "more params": Asked(more=1),
    "a task": Asked(task={"ttl": 5}),
    "answers to no question": Asked(inputResponses=7),
    "state of another kind": Asked(requestState=7),
    "arguments of another kind": Asked(arguments=[WORD]),
    "half a character": Asked(arguments={"text": "\ud800"}),
    "half a character, raw": Asked().put("\\u00e4", "\ud800"),
    "NaN": Asked(arguments={"text": WORD, "often": float("nan")}),
    "beyond all numbers": Asked().put('\\u00e4"', '\\u00e4", "often": 1e999'),
    "a number of 5000 digits": Asked().put('\\u00e4"', '\\u00e4", "often": 1' + "0" * 5000),
    "too deep": Asked().put('\\u00e4"', '\\u00e4", "often": ' + "[" * 100_000 + "]" * 100_000),
    "UTF-16": Asked().saying(Asked().body.decode().encode("utf-16")),
    "a byte order mark": Asked().saying(b"\xef\xbb\xbf" + Asked().body),
    "no UTF-8": Asked().saying(Asked().body.replace(b"\\u00e4", b"\xff")),
    "no name": Asked().put('"name": "note", ', ""),
    "a name that is a number": Asked(name=7),
    "an empty name": Asked({"mcp-name": None}, name=""),
    "no meta": Asked(_meta=None),
    "meta of another kind": Asked(_meta=[META]),
    "no version": Asked(_meta={PREFIX + "clientCapabilities": {}}),
    "no capabilities": Asked(_meta={PREFIX + "protocolVersion": MODERN}),
    "another version inside": Asked(_meta=_more(protocolVersion="2099-01-01")),
    "another version outside": Asked({"mcp-protocol-version": "2099-01-01"}),
    "another version": Asked({"mcp-protocol-version": "2099-01-01"}, _meta=_more(protocolVersion="2099-01-01")),
    "capabilities of another kind": Asked(_meta=_more(clientCapabilities={"roots": 7})),
    "somebody without a version": Asked(_meta=_more(clientInfo={"name": "a"})),
    "no UTF-8 in who it is": Asked(_meta=_more(clientInfo={"name": "#", "version": "1"})).put("#", "\ud800"),
    "a wish for logs": Asked(_meta=_more(logLevel="debug")),
    "no such logs": Asked(_meta=_more(logLevel="loud")),
    "a wish for progress": Asked({"accept": "application/json"}, _meta={**META, "progressToken": 1}),
    "a trace": Asked(_meta=_more(**{"example.org/trace": "1"})),
    "much about itself": Asked(_meta=_more(clientInfo={"name": "a" * 5000, "version": "1"})),
    "no name outside": Asked({"mcp-name": None}),
    "another name outside": Asked({"mcp-name": "show"}),
    "a broken name outside": Asked({"mcp-name": "=?base64?*?="}),
    "no method outside": Asked({"mcp-method": None}),
    "another method outside": Asked({"mcp-method": "tools/list"}),
    "no version outside": Asked({"mcp-protocol-version": None}),
    "the era before": Asked({"mcp-protocol-version": "2025-11-25"}),
    "a session": Asked({"mcp-session-id": "1"}),
    "events alone": Asked({"accept": "text/event-stream"}),
    "nothing accepted": Asked({"accept": None}),
    "anything accepted": Asked({"accept": "*/*"}),
    "JSON of another kind": Asked({"accept": "application/json-patch"}),
    "plain text": Asked({"content-type": "text/plain"}),
    "no type": Asked({"content-type": None}),
    "another host": Asked({"host": "example.org"}),
    "the host in capitals": Asked({"host": "LOCALHOST:80"}),
    "a longer host": Asked({"host": "localhost.example.org:80"}),
    "its own origin": Asked({"origin": "http://localhost:80"}),
    "another origin": Asked({"origin": "http://example.org"}),
    "no length": Asked({"content-length": None}),
    "no such length": Asked({"content-length": "+5"}),
    "too long": Asked({"content-length": str(MAX_BODY_BYTES + 1)}),
    "longer than it says": Asked({"content-length": "9"}).saying(b" " * (MAX_BODY_BYTES + 1)),
}
"""What the SDK answers, or refuses."""


class Counter:
    """An agent plane, spoken to without a network."""

    def __init__(self, plane: AgentPlane, seat: ServedSeat, world: object) -> None:
        self.plane, self.seat, self._world = plane, seat, world

    @property
    def shown(self) -> int:
        """How often a tool ran since the last look."""
        assert isinstance(self._world, Curios)
        shown, self._world.shown = self._world.shown, 0
        return shown

    async def ask(self, asked: Asked, more: Headers = (), pieces: int = 1) -> tuple[int, dict[bytes, bytes], bytes]:
        """Status, headers and body of what is answered."""
        sent: list[Any] = []
        size = -(-len(asked.body) // max(pieces, 1))
        left = [asked.body[size * number : size * (number + 1)] for number in range(pieces)]
        length = {"content-length": str(len(asked.body))}
        headers = [
            (name.encode(), value.encode("latin-1"))
            for name, value in {**length, **asked.headers}.items()
            if value is not None
        ]

        async def receive() -> dict[str, Any]:
            if not left:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": [*headers, *more]}
        await self.plane.serve_seat(self.seat, scope, receive, send)
        body = b"".join(message.get("body", b"") for message in sent[1:])
        told = dict(sent[0]["headers"])
        told.pop(b"mcp-session-id", None)
        assert int(told.pop(b"content-length", b"0")) == len(body)
        return sent[0]["status"], told, body

    async def both(self, asked: Asked, name: str = "") -> bytes:
        """What is answered, which must be what the SDK answers, after the same work."""
        status, headers, body = await self.ask(asked)
        shown = self.shown
        assert (status, headers, _value(body), shown) == await self._by_the_sdk(asked), name
        assert status < 500
        return body

    async def _by_the_sdk(self, asked: Asked) -> tuple[int, dict[bytes, bytes], str, int]:
        status, headers, body = await self.ask(asked, TWICE)
        return status, headers, _value(body), self.shown


def _value(body: bytes) -> str:
    """The JSON that a body is; as words, since NaN does not equal itself."""
    try:
        return json.dumps(json.loads(body), sort_keys=True)
    except ValueError:
        return repr(body)


@asynccontextmanager
async def counter(fault: Fault | None = None) -> AsyncGenerator[Counter]:
    async with opened(Curios) as episode:
        plane = AgentPlane(host_of(Curios).info, Guard(["127.0.0.1", "localhost"]))
        served = ServedEpisode(episode, Metrics(), close_seconds=5, expires_at=0, seed=0, digest="")
        seat = served.add_seat(fault or episode.seats["agent"], "agent", new_user(episode.id, "agent"))
        async with plane.serving(None):
            yield Counter(plane, seat, episode.environment)


async def test_plain_calls_are_answered_as_the_sdk_answers_them() -> None:
    async with counter() as agent:
        for name, asked in PLAIN.items():
            assert WORD.encode() in await agent.both(asked, name), name


async def test_what_is_not_plain_is_the_sdks_to_answer() -> None:
    async with counter() as agent:
        for name, asked in OTHERS.items():
            assert WORD.encode() not in await agent.both(asked, name), name


async def test_whatever_is_changed_in_a_body_both_answer_the_same() -> None:
    chance = random.Random(7)
    whole = Asked(arguments={"text": WORD, "often": -2.5e3}, _meta=_more(clientInfo={"name": "a", "version": "1"})).body
    async with counter() as agent:
        for _ in range(300):
            body = bytearray(whole)
            for _ in range(chance.randint(1, 3)):
                place = chance.randrange(len(body))
                body[place : place + chance.randint(0, 2)] = chance.choices(MARKS, k=chance.randint(0, 2))
                    b'01.-eE"\\{}[],: \x00\xc3\xff', k=chance.randint(0, 2)
                )
            await agent.both(Asked().saying(bytes(body)), repr(body))


async def test_a_body_in_pieces_is_the_sdks_to_read() -> None:
    async with counter() as agent:
        _, _, body = await agent.ask(Asked(), pieces=3)
        assert (agent.shown, WORD.encode() in body) == (1, False)
        assert json.loads(body)["result"]["content"] == [{"type": "text", "text": f"{WORD} 1"}]


async def test_nothing_is_called_for_a_client_that_left_before_its_body() -> None:
    async with counter() as agent:
        with pytest.raises(ClientDisconnect):
            await agent.ask(Asked(), pieces=0)
        assert agent.shown == 0


@pytest.mark.parametrize("kind", RESULTS)
async def test_every_kind_of_result_is_written_as_the_sdk_writes_it(kind: str) -> None:
    async with counter() as agent:
        await agent.both(Asked(name="show", arguments={"kind": kind}))
        await agent.ask(Asked(name="show", arguments={"kind": kind}))
        assert agent.shown == 1, "the tool ran once, whoever answered"


async def test_arguments_that_a_tool_wants_in_headers_are_compared() -> None:
    async with counter() as agent:
        right, wrong = ({"mcp-param-region": region} for region in ("north", "south"))
        assert b"north" in await agent.both(Asked(right, name="visit", arguments={"region": "north"}))
        assert b"-32020" in await agent.both(Asked(wrong, name="visit", arguments={"region": "north"}))
        assert b"-32020" in await agent.both(Asked(name="visit", arguments={"region": "north"}))


@pytest.mark.parametrize(
    "error",
    [
        lambda: MCPError(-32602, "No such thing", {"a": WORD}),
        lambda: MCPError(-32000, "Not now"),
        lambda: ValidationError.from_exception_data(CANARY, []),
        lambda: RuntimeError(CANARY),
        lambda: ExceptionGroup("two", [RuntimeError(CANARY)]),
    ],
)
async def test_a_fault_is_told_as_the_sdk_tells_it(error: Callable[[], Exception]) -> None:
    async with counter(Fault(error)) as agent:
        assert CANARY.encode() not in await agent.both(Asked())


async def test_after_the_seal_the_sdk_answers_what_was_answered_before_it() -> None:
    async with counter() as agent:
        await agent.seat.episode.seal()
        assert CLOSED.encode() in await agent.both(Asked())
        assert agent.shown == 0


async def test_calls_side_by_side_are_each_answered_their_own() -> None:
    async with counter() as agent:

        async def ask(number: int) -> None:
            _, _, body = await agent.ask(Asked(arguments={"text": str(number)}).whose(id=number))
            said = json.loads(body)
            assert (said["id"], said["result"]["content"][0]["text"]) == (number, f"{number} 1")

        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(ask, number)
        assert (agent.shown, agent.seat.requests) == (50, 0)
