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

from rollouthub import tool
from rollouthub.hosting.local.hosted_episode import CLOSED
from rollouthub.hosting.server.agent_plane import AgentPlaneApp, new_user
from rollouthub.hosting.server.served_episode import ServedEpisode, ServedSeat
from rollouthub.hosting.server.server_metrics import Metrics
from rollouthub.http.asgi import Guard, Headers
from tests.hosting.local.worlds import CANARY, World, host_of, opened
from tests.hosting.server.asked import OTHERS, PLAIN, PREFIX, WORD, Asked, more_meta

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
    # What a careless author may do:
    "no block": lambda: CallToolResult.model_construct(content=[{"type": "text"}]),  # pyright: ignore[reportArgumentType]
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
        self.token, self.messages, self.tools, self.task_tools = "fault", (), (), frozenset[str]()
        self._error = error

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        raise self._error()

    async def reply(self, messages: object) -> NoReturn:
        raise NotImplementedError


class Counter:
    """An agent plane, spoken to without a network."""

    def __init__(self, plane: AgentPlaneApp, seat: ServedSeat, world: object) -> None:
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
        plane = AgentPlaneApp(host_of(Curios).info, Guard(["127.0.0.1", "localhost"]))
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
    who = more_meta(clientInfo={"name": "a", "version": "1"})
    whole = Asked(arguments={"text": WORD, "often": -2.5e3}, _meta=who).body
    async with counter() as agent:
        for _ in range(300):
            body = bytearray(whole)
            for _ in range(chance.randint(1, 3)):
                place = chance.randrange(len(body))
                body[place : place + chance.randint(0, 2)] = chance.choices(MARKS, k=chance.randint(0, 2))
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
