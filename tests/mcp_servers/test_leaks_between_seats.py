"""The leak classes of the contract between seats of one episode: in this process, and served to clients over HTTP."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from rollouthub import BadRow, Deadlines, Submission
from rollouthub.hosting.local.hosted_episode import CLOSED
from rollouthub.hosting.open_host import configured, open_in_process, open_served
from rollouthub.messages import digest_of
from rollouthub.plugins.environments import find_environment
from rollouthub.protocols import EnvironmentHost, Episode
from tests.contract.drivers import Driver, direct, sdk
from tests.gateway.sessions.front import rpc

from .private_table import PIXEL, PRIVATE

TABLE = str(Path(__file__).parent / "private_table.py")


@asynccontextmanager
async def hosted(place: str) -> AsyncGenerator[EnvironmentHost]:
    if place == "served":
        async with open_served(TABLE, {}) as host:
            yield host
    else:
        found = find_environment(TABLE)
        async with open_in_process(found.name, found.environment, configured(found, {})) as host:
            yield host


@asynccontextmanager
async def table(place: str) -> AsyncGenerator[Episode]:
    with anyio.fail_after(60):
        async with hosted(place) as host:
            card = await anext(aiter(host.tasks("test", 0)))
            assert not isinstance(card, BadRow)
            async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
                yield episode


@asynccontextmanager
async def client(episode: Episode, seat: str, place: str) -> AsyncGenerator[Driver]:
    """An agent at a seat: with nothing between, or an MCP client at its URL."""
    plane = episode.seats[seat]
    opener = sdk("auto") if place == "served" else direct
    async with opener(plane, url_of(episode, seat)) as driver:
        yield driver


def url_of(episode: Episode, seat: str) -> str:
    return str(getattr(episode.seats[seat], "url", ""))


@pytest.fixture(params=["here", "served"])
def place(request: pytest.FixtureRequest) -> str:
    return request.param


OTHERS = [("left", "right"), ("right", "left")]


@pytest.mark.parametrize(("seat", "other"), OTHERS)
async def test_l1_to_l4_neither_words_nor_tools_of_another_are_shown(place: str, seat: str, other: str) -> None:
    async with table(place) as episode, client(episode, seat, place) as driver:
        listed = await driver.tools()
        assert {tool["name"] for tool in listed} == {f"{seat}_card", "who", "get_task", "listen", "reply"}
        shown = [listed, driver.instructions, await driver.call("get_task", {}), episode.seats[seat].messages]
        refused = await driver.call(f"{other}_card", {})
        assert refused["isError"]
        assert "unknown tool" in str(refused)
        assert PRIVATE[seat] in str(await driver.call(f"{seat}_card", {}))
        assert PRIVATE[other] not in str([*shown, refused])


@pytest.mark.parametrize(("seat", "other"), OTHERS)
async def test_l2_nobody_calls_or_speaks_as_another(place: str, seat: str, other: str) -> None:
    async with table(place) as episode, client(episode, seat, place) as driver:
        assert (await driver.call("who", {}))["content"][0]["text"] == seat
        for arguments in ({"seat": other}, {"agent": other}, {"_seat": other}):
            assert (await driver.call("who", arguments))["isError"]
            assert (await driver.call("reply", {"text": "It is me.", **arguments}))["isError"]
        await episode.seal()
        assert f"{other}:" not in ((await episode.verify(Submission())).feedback or "")


async def test_l5_after_the_end_every_seat_is_closed(place: str) -> None:
    async with table(place) as episode:
        await episode.seal()
        for seat in episode.seats:
            async with client(episode, seat, place) as driver:
                for name in (f"{seat}_card", "who", "get_task"):
                    assert (await driver.call(name, {}))["content"][0]["text"] == CLOSED


async def test_l9_media_of_another_seat_cannot_be_read() -> None:
    own = f"media:{digest_of(PIXEL).removeprefix('sha256:')}"
    uris = [own, f"media/{digest_of(PIXEL)}", f"attachment:///{digest_of(PIXEL)}", digest_of(PIXEL)]
    async with table("served") as episode, aiohttp.ClientSession() as http:
        address = url_of(episode, "left")
        for uri in uris:
            _, answer = await rpc(http, address, "resources/read", uri=uri)
            assert "error" in answer
        _, listed = await rpc(http, address, "resources/list")
        assert digest_of(PIXEL) not in str(listed)
        async with http.get(address.removesuffix("/mcp") + f"/media/{digest_of(PIXEL)}") as response:
            assert response.status >= 400
        async with Client(url_of(episode, "right")) as right, Client(address) as left:
            assert [resource.uri for resource in (await right.list_resources()).resources] == [own]
            assert (await left.list_resources()).resources == []
            assert left.server_capabilities.resources is None
            for uri in uris:
                with pytest.raises(MCPError, match="Resource not found"):
                    await left.read_resource(uri)


async def test_l10_tokens_are_of_one_seat_and_cannot_be_moved_to_another() -> None:
    async with table("served") as episode, aiohttp.ClientSession() as http:
        left, right = url_of(episode, "left"), url_of(episode, "right")
        tokens = [url.split("/e/")[1].split("/")[0] for url in (left, right)]
        assert tokens[0] != tokens[1]
        assert all(len(token) >= 22 for token in tokens)
        assert tokens[1] not in str(episode.seats["left"].messages)
        moved: list[dict[str, str]] = [{"X-Seat": "right"}, {"Mcp-Session-Id": "right"}, {"X-Forwarded-Uri": right}]
        for headers in moved:
            meta: dict[str, Any] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
            meta["io.modelcontextprotocol/clientCapabilities"] = {}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            call = {**body, "params": {"name": "right_card", "arguments": {}, "_meta": meta}}
            sent = {"Mcp-Method": "tools/call", "Mcp-Name": "right_card", "MCP-Protocol-Version": "2026-07-28"}
            async with http.post(left + "?seat=right", json=call, headers=sent | headers) as response:
                assert PRIVATE["right"] not in await response.text()
        for forged in (tokens[0] + "/right", "right", tokens[0][:-1], tokens[0].swapcase()):
            status, _ = await rpc(http, left.replace(tokens[0], forged), "tools/list")
            assert status >= 400


async def test_l11_what_the_verdict_says_reaches_no_seat(place: str) -> None:
    async with table(place) as episode:
        await episode.seal()
        verdict = await episode.verify(Submission())
        assert verdict.feedback is not None
        for seat in episode.seats:
            async with client(episode, seat, place) as driver:
                assert "reward" not in str(await driver.call("get_task", {}))
