"""What a server or an agent sends that is crowded with small values holds up nobody, and is a fault of nobody's."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Outcome
from rollouthub.hosting.open_host import configured, open_in_process, open_served
from rollouthub.plugins.environments import find_environment
from rollouthub.protocols import EnvironmentHost, SeatAddress
from tests.gateway.outside import GatewayHarness, harness, words
from tests.loop_holds import SECONDS, SIZE, shortest_hold
from tests.mcp_servers.foreign import SERVER, call, hosted, make, opened, text

MARKS = ("[", "0,", "[],", "{},", '"",', r'"\\",')
VERSION = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "submit"}
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@contextmanager
def serving(*arguments: str) -> Generator[str]:
    """The foreign server over HTTP; its URL."""
    process = subprocess.Popen(
        [sys.executable, str(SERVER), "--http", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    finally:
        process.kill()
        process.communicate()


@asynccontextmanager
async def foreign(way: str, folder: Path) -> AsyncGenerator[EnvironmentHost]:
    """The foreign server's environment, over its pipes or HTTP."""
    if way == "pipes":
        async with hosted(make(folder / "notes", server={"result_bytes": 8_000_000})) as host:
            yield host
        return
    with serving(*(["--events"] if way == "events" else [])) as url:
        server = {"url": url, "token_variable": "NOTES_TOKEN"}
        async with hosted(make(folder / "notes", server=server)) as host:
            yield host


@pytest.mark.parametrize(
    ("way", "mark"),
    [
        pytest.param(way, mark, marks=pytest.mark.soak if way != "pipes" and mark != "0," else [])
        for way in ("pipes", "http", "events")
        for mark in ("0,", "[],", "{},", '"",')
    ],
)
async def test_a_crowded_result_of_a_server_is_the_agents_to_hear_of(
    way: str, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "NOTES_TOKEN", "open sesame")
    async with foreign(way, tmp_path) as host, opened(host) as episode:

        async def play(longest: list[float]) -> None:
            result = await call(episode, "crowd", text=mark)
            assert (text(result), result.is_error) == (
                "the result holds more than 50,000 values; ask for less at a time",
                True,
            )
            assert text(await call(episode, "shout")) == "hoarse"

        assert await shortest_hold(play) < SECONDS


@asynccontextmanager
async def sums(*, is_served: bool) -> AsyncGenerator[GatewayHarness]:
    """A gateway to a shipped environment, which is hosted here or in a process of its own."""
    found = find_environment("arithmetic")
    opening = (
        open_served("arithmetic", {})
        if is_served
        else open_in_process("arithmetic", found.environment, configured(found, {}))
    )
    async with opening as host, harness(host=host) as made:
        yield made


def submission(json_text: str) -> bytes:
    """A call that hands this in."""
    params: dict[str, Any] = {"name": "submit", "arguments": {"answer": []}, "_meta": META}
    whole = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    return whole.replace("[]", json_text).encode()


async def post(made: GatewayHarness, address: SeatAddress, body: bytes, **headers: str) -> tuple[int, Any]:
    """The status and JSON that answer a message."""
    told = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    async with made.http.post(address.agent_url, data=BytesIO(body), headers=told) as response:
        return response.status, await response.json()


async def held_by(made: GatewayHarness, send: Callable[[SeatAddress], Awaitable[None]]) -> float:
    """For how long an episode in which this is sent holds the loop."""

    async def play(longest: list[float]) -> None:
        rollout = await made.play(send)
        assert rollout.outcome is Outcome.SCORED

    return await shortest_hold(play)


@pytest.mark.parametrize("headers", [VERSION, {}], ids=["a plain call", "a session"])
@pytest.mark.parametrize("is_served", [False, True], ids=["in process", "passed on"])
async def test_a_crowded_message_is_refused_in_words_and_the_next_is_read(
    is_served: bool, headers: dict[str, str]
) -> None:
    async with sums(is_served=is_served) as made:
        for mark in MARKS:
            body = submission(f"[{mark * (SIZE // len(mark))}0]")

            async def send(address: SeatAddress, body: bytes = body) -> None:
                status, answer = await post(made, address, body, **headers)
                assert (status, answer["error"]["code"]) == (413, -32600)
                assert "more than 50,000 values" in answer["error"]["message"]
                assert "2" in words(await made.call(address, "calculate", expression="1 + 1"))

            held = await held_by(made, send)
            assert held < SECONDS, (mark, held)


@pytest.mark.parametrize("is_served", [False, True], ids=["in process", "passed on"])
async def test_a_long_text_of_such_marks_is_read_as_any_other(is_served: bool) -> None:
    body = submission(json.dumps('[{,"' * (SIZE // 5)))

    async with sums(is_served=is_served) as made:

        async def send(address: SeatAddress) -> None:
            status, answer = await post(made, address, body, **VERSION)
            assert (status, answer["result"]["isError"]) == (200, False)

        assert await held_by(made, send) < SECONDS
