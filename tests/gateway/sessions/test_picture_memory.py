"""Agents outside that show a model many pictures cost a serving hub hardly more memory than with words."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from weakref import ref

import aiohttp
import anyio
import pytest

from rollouthub import Outcome
from rollouthub.gateway.gateway_client import HubClient
from rollouthub.gateway.sessions.serve_sessions import HubReady
from rollouthub.gateway.sessions.sessions_wire import EpisodeRequest, EpisodeTicket
from tests.engine.test_picture_memory import MOST_BYTES, WORLD
from tests.gateway.sessions.front import call, front, rpc
from tests.hosting.server.processes import started

TOKEN = "control-canary-3b2f60"
COUNT, PADDING, CONCURRENCY = 1000, 100_000, 32
Dialect = Literal["chat/completions", "responses", "messages"]


def asked(dialect: Dialect, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """The request that shows a model what an MCP client was shown."""

    def shown(block: dict[str, Any]) -> dict[str, Any]:
        if block["type"] == "text":
            return {"type": "input_text" if dialect == "responses" else "text", "text": block["text"]}
        if dialect == "messages":
            source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
            return {"type": "image", "source": source}
        url = f"data:{block['mimeType']};base64,{block['data']}"
        if dialect == "responses":
            return {"type": "input_image", "detail": "auto", "image_url": url}
        return {"type": "image_url", "image_url": {"url": url}}

    said = [{"role": "user", "content": [shown(block) for block in blocks]}]
    if dialect == "responses":
        return {"model": "any", "input": said, "store": False}
    return {"model": "any", "messages": said, "max_tokens": 100}


async def play(http: aiohttp.ClientSession, seat: EpisodeTicket, dialect: Dialect) -> None:
    """Look at the task, and show it to the model."""
    assert seat.agent_url is not None
    _, answer = await rpc(http, seat.agent_url, "tools/call", name="get_task", arguments={})
    body = asked(dialect, answer["result"]["content"])
    async with http.post(f"{seat.llm_url}/{dialect}", json=body) as response:
        assert response.status == 200, await response.text()


async def most_bytes(directory: Path, dialect: Dialect, *, shows: bool) -> int:
    """The most memory that a serving hub held while all rollouts were played."""
    settings = ("--set", f"count={COUNT}", "--set", f"padding={PADDING}", "--set", f"shows={shows}".lower())
    command = ("serve", WORLD, *settings, "-m", "mock/say", "--seed", "0", "--json", "--control", "127.0.0.1:0")
    async with started(*command, "-o", str(directory), ROLLOUTHUB_CONTROL_TOKEN=TOKEN) as hub:
        ready = HubReady.model_validate_json(await hub.line())
        numbers = iter(range(COUNT))
        async with HubClient(ready.control_url, TOKEN) as client, aiohttp.ClientSession() as http:

            async def play_all(left: Iterator[int]) -> None:
                for _ in left:
                    seat = await client.open(EpisodeRequest())
                    await play(http, seat, dialect)
                    assert (await client.verify(seat.id)).outcome is Outcome.SCORED

            async with anyio.create_task_group() as agents:
                for _ in range(CONCURRENCY):
                    agents.start_soon(play_all, numbers)
        return _most_resident_bytes(hub.process.pid)


def _most_resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) * 1024


@pytest.mark.soak
@pytest.mark.parametrize("dialect", ["chat/completions", "responses", "messages"])
async def test_a_thousand_picture_rollouts_of_agents_outside_cost_under_fifty_mebibytes(
    dialect: Dialect, tmp_path: Path
) -> None:
    assert COUNT * PADDING > 1.5 * MOST_BYTES
    plain = await most_bytes(tmp_path / "words", dialect, shows=False)
    most = await most_bytes(tmp_path / "pictures", dialect, shows=True)
    kept = list((tmp_path / "pictures" / "media").iterdir())
    assert len(kept) == COUNT
    assert sum(file.stat().st_size for file in kept) > COUNT * PADDING
    assert most - plain < MOST_BYTES, f"{(most - plain) / 2**20:.1f} MiB more"


async def test_an_episode_that_has_ended_is_forgotten_before_its_time_to_live(tmp_path: Path) -> None:
    async with front(tmp_path / "run", model="mock/say") as hub, aiohttp.ClientSession() as http:
        first, session = await hub.open(EpisodeRequest()), await hub.open(EpisodeRequest())
        known = ref(session), ref(session.attempt)
        await call(session.address.agent_url, "add")
        said = {"model": "any", "messages": [{"role": "user", "content": "Hello."}]}
        async with http.post(f"{session.address.llm_url}/chat/completions", json=said) as response:
            assert response.status == 200
        gc.disable()  # what a circle holds is garbage that a run collects seldom
        try:
            await session.verify()
            del session
            await call(first.address.agent_url, "add")
            assert [each() for each in known] == [None, None]
        finally:
            gc.enable()
