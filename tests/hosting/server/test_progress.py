"""Progress of a tool call: told to the client that asks, in both eras, before the result and never after."""

import json
from typing import Any

import anyio
import pytest

from rollouthub import tool
from tests.hosting.local.worlds import World
from tests.hosting.server.wire_client import ACCEPT, LEGACY, META, MODERN, WireClient, client, said, served


class Climb(World):
    """A tool that says how far it is, and waits to be told that it was heard."""

    heard = anyio.Event()

    @tool
    async def climb(self, steps: int) -> str:
        """Climb.

        Args:
            steps: How many.
        """
        for step in range(1, steps + 1):
            await self.report_progress(step, steps, f"step {step}")
        return "There."

    @tool
    async def stumble(self) -> str:
        """Report the same, and less, again."""
        for done in (1, 1, 0, 2):
            await self.report_progress(done)
        return "There."

    @tool
    async def knock(self) -> str:
        """Wait until somebody heard."""
        await self.report_progress(1)
        await type(self).heard.wait()
        return "Heard."

    @tool
    async def babble(self) -> str:
        """Report what is no number."""
        await self.report_progress(float("nan"))
        return "Never."


def _body(name: str, arguments: dict[str, Any], token: object = None) -> bytes:
    meta = META if token is None else {**META, "progressToken": token}
    params = {"name": name, "arguments": arguments, "_meta": meta}
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).encode()


def _routing(name: str) -> dict[str, str]:
    return {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": name}


def _messages(body: bytes) -> list[dict[str, Any]]:
    events = body.decode().strip().split("\n\n")
    return [json.loads(event.partition("data: ")[2]) for event in events]


async def _ask(wire: WireClient, name: str, token: object = None, accept: str | None = None, **arguments: Any):
    seat = await wire.seat()
    headers = ACCEPT | _routing(name) | ({} if accept is None else {"Accept": accept})
    return await wire.send("POST", seat.url, _body(name, arguments, token), headers)


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_the_sdks_client_is_told_how_far_a_call_is(era: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with served(Climb) as wire, client((await wire.seat()).url, era) as agent:
        assert said(await agent.call_tool("climb", {"steps": 3}, progress_callback=hear)) == "There."
    assert told == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_progress_comes_before_the_result_is_there() -> None:
    Climb.heard = anyio.Event()
    async with served(Climb) as wire:
        seat = await wire.seat()
        body = _body("knock", {}, "t")
        async with wire.http.post(seat.url, data=body, headers=ACCEPT | _routing("knock")) as response:
            assert response.content_type == "text/event-stream"
            first = _messages(await response.content.readuntil(b"\n\n"))
            assert first[0]["params"] == {"progressToken": "t", "progress": 1.0}
            Climb.heard.set()
            last = _messages(await response.read())
    assert [message["id"] for message in last] == [7]
    assert last[0]["result"]["content"][0]["text"] == "Heard."


@pytest.mark.parametrize(
    ("token", "accept"), [(None, None), ("t", "application/json")], ids=["nobody asked", "no events are read"]
)
async def test_otherwise_the_answer_is_plain_json(token: object, accept: str | None) -> None:
    async with served(Climb) as wire:
        answer = await _ask(wire, "climb", token, accept, steps=3)
        assert (answer.headers["content-type"], answer.text) == ("application/json", "There.")


async def test_a_call_that_reports_nothing_is_answered_in_plain_json() -> None:
    async with served(Climb) as wire:
        answer = await _ask(wire, "climb", 0, steps=0)
        assert (answer.headers["content-type"], answer.text) == ("application/json", "There.")


async def test_only_what_is_further_is_told() -> None:
    async with served(Climb) as wire:
        answer = await _ask(wire, "stumble", 5)
    *told, result = _messages(answer.body)
    assert [message["params"] for message in told] == [
        {"progressToken": 5, "progress": 1.0},
        {"progressToken": 5, "progress": 2.0},
    ]
    assert result["id"] == 7


async def test_a_number_that_is_none_is_a_fault_of_the_environment() -> None:
    async with served(Climb) as wire:
        episode = await wire.open()
        answer = await wire.call(episode.seats[0].url, "babble")
        assert answer.is_error
        assert [fault.type for fault in wire.episode(episode.id).faults] == ["ValueError"]


async def test_a_client_that_leaves_a_stream_ends_its_call() -> None:
    Climb.heard = anyio.Event()
    async with served(Climb) as wire:
        episode = await wire.open()
        session = await wire.begin(episode.seats[0].url)
        body = json.loads(_body("knock", {}, "t"))
        del body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"]
        headers = ACCEPT | session.headers | {"MCP-Protocol-Version": LEGACY}
        async with wire.http.post(session.url, data=json.dumps(body).encode(), headers=headers) as response:
            await response.content.readuntil(b"\n\n")
            response.close()
        # The next call starts when the one left behind is over.
        assert (await session.call("climb", steps=1)).text == "There."
        assert not wire.serving.episodes.find(episode.id).in_flight
