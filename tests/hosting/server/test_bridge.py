"""`hub serve stdio`: an episode behind HTTP, played by a client that knows only stdin and stdout."""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from mcp import Client, StdioServerParameters

from rollouthub.hosting.local.hosted_episode import CLOSED
from rollouthub.hosting.server.stdio_bridge import MAX_LINE_BYTES
from tests.hosting.local.worlds import Workshop, world_of
from tests.hosting.server.processes import HUB, Started, ended, started
from tests.hosting.server.wire_client import LEGACY, META, said, served


@asynccontextmanager
async def bridged(url: str) -> AsyncGenerator[Started]:
    """The bridge to a seat, its token not on the command line."""
    async with started("serve", "stdio", ROLLOUTHUB_AGENT_URL=url) as bridge:
        yield bridge


async def ask(bridge: Started, number: int, method: str, params: dict[str, Any], *, modern: bool = True) -> None:
    """Send a request, without waiting for its answer."""
    params = {**params, "_meta": META} if modern else params
    await bridge.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())


async def call(bridge: Started, number: int, name: str, /, **arguments: object) -> None:
    """Send a tool call of the sessionless era."""
    await ask(bridge, number, "tools/call", {"name": name, "arguments": arguments})


async def begin(bridge: Started) -> None:
    """A legacy handshake."""
    greeting = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    await ask(bridge, 0, "initialize", greeting, modern=False)
    assert (await bridge.json())["result"]["protocolVersion"] == LEGACY
    await bridge.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_stdio_client_finishes_an_episode(era: str) -> None:
    async with served(Workshop) as wire:
        seat = await wire.seat()
        command = StdioServerParameters(
            command=HUB[0], args=[*HUB[1:], "serve", "stdio"], env={**os.environ, "ROLLOUTHUB_AGENT_URL": seat.url}
        )
        mode = "legacy" if era == "legacy" else "auto"
        async with Client(command, mode=mode) as agent:
            assert agent.instructions == "Be brief.\n\nSay yes."
            assert [tool.name for tool in (await agent.list_tools()).tools][-2:] == ["get_task", "submit"]
            weather = await agent.call_tool("weather", {"city": "Oslo"})
            assert weather.structured_content == {"city": "Oslo", "degrees": 21.5}
            assert said(await agent.call_tool("note", {"text": "ä\n☃"})) == '["ä\\n☃"]'
            assert (await agent.call_tool("refuse", {})).is_error
            assert (await agent.list_prompts()).prompts == []
            assert said(await agent.call_tool("submit", {"answer": "yes"})) == "Submitted."
            assert said(await agent.call_tool("note", {"text": "late"})) == CLOSED


async def test_calls_are_answered_as_they_are_done() -> None:
    async with served(Workshop) as wire:
        opened = await wire.open()
        world = world_of(wire.episode(opened.id), Workshop)
        async with bridged(opened.seats[0].url) as bridge:
            await call(bridge, 1, "wait")
            await world.is_waiting.wait()
            await call(bridge, 2, "note", text="x")
            assert (await bridge.json())["id"] == 2
            world.may_finish.set()
            assert (await bridge.json())["id"] == 1


async def cleaned(world: Workshop) -> None:
    """Until the world is clean again."""
    while not world.cleaned:
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("how", ["hangs up", "is killed"])
async def test_a_client_that_is_gone_cancels_its_calls(how: str) -> None:
    async with served(Workshop) as wire:
        opened = await wire.open()
        world = world_of(wire.episode(opened.id), Workshop)
        async with bridged(opened.seats[0].url) as bridge:
            await call(bridge, 1, "wait")
            await world.is_waiting.wait()
            if how == "hangs up":
                await bridge.hang_up()
                assert await bridge.process.wait() == 0
            else:
                bridge.process.kill()
            await cleaned(world)


async def test_a_cancelled_request_is_cancelled_at_the_server() -> None:
    for is_modern in (True, False):
        async with served(Workshop) as wire:
            opened = await wire.open()
            world = world_of(wire.episode(opened.id), Workshop)
            async with bridged(opened.seats[0].url) as bridge:
                if not is_modern:
                    await begin(bridge)
                await ask(bridge, 7, "tools/call", {"name": "wait", "arguments": {}}, modern=is_modern)
                await world.is_waiting.wait()
                await bridge.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}')
                await cleaned(world)
                await ask(bridge, 8, "tools/call", {"name": "note", "arguments": {"text": "x"}}, modern=is_modern)
                answer = await bridge.json()
                if answer["id"] == 7:  # legacy servers answer what they cancelled
                    assert "error" in answer
                    answer = await bridge.json()
                assert answer["id"] == 8


async def test_the_end_of_stdin_ends_the_session() -> None:
    async with served(Workshop) as wire:
        opened = await wire.open()
        (seat,) = wire.serving.episodes.find(opened.id).seats.values()
        async with bridged(opened.seats[0].url) as bridge:
            await begin(bridge)
            assert len(seat.sessions) == 1
            await bridge.hang_up()
            assert await bridge.process.wait() == 0
        assert len(seat.sessions) == 0


async def refusal(control_url: str) -> dict[str, Any]:
    """What a client is told that calls a tool through the bridge."""
    async with bridged(control_url) as bridge:
        await call(bridge, 3, "note", text="x")
        answer = await bridge.json()
        assert answer["id"] == 3
        return answer["error"]


async def test_a_server_that_is_gone_is_an_error_and_no_wait() -> None:
    async with served(Workshop) as wire:
        url = (await wire.seat()).url
    error = await refusal(url)
    assert "gone" in error["message"]
    assert url not in error["message"]


async def test_a_closed_episode_is_an_error_with_the_requests_id() -> None:
    async with served(Workshop) as wire:
        opened = await wire.open()
        await wire.control("DELETE", f"/v1/episodes/{opened.id}")
        assert "message" in await refusal(opened.seats[0].url)


async def test_a_server_that_goes_in_mid_call_is_an_error() -> None:
    async def hang_up(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, hang_up)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        assert "gone" in (await refusal(f"http://127.0.0.1:{port}/e/token/mcp"))["message"]
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("line", "code"), [(b"{", -32700), (b"hello", -32700), (b"[]", -32700), (b"x" * (MAX_LINE_BYTES + 1), -32600)]
)
async def test_a_line_that_is_no_message_is_refused_and_the_next_one_served(line: bytes, code: int) -> None:
    async with served(Workshop) as wire, bridged((await wire.seat()).url) as bridge:
        await bridge.send(line)
        answer = await bridge.json()
        assert (answer["id"], answer["error"]["code"]) == (None, code)
        await call(bridge, 1, "note", text="x")
        assert (await bridge.json())["id"] == 1


async def test_names_no_header_can_carry_reach_the_server() -> None:
    async with served(Workshop) as wire, bridged((await wire.seat()).url) as bridge:
        await call(bridge, 1, "nöte \n")
        assert "unknown tool" in (await bridge.json())["result"]["content"][0]["text"]


@pytest.mark.parametrize("url", ["nowhere", "ftp://127.0.0.1/e/x/mcp", ""])
def test_what_is_no_url_is_refused(url: str, tmp_path: Path) -> None:
    assert ended("serve", "stdio", folder=tmp_path, ROLLOUTHUB_AGENT_URL=url).returncode == 2
