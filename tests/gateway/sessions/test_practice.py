"""Practice has a fixed URL, assigns one task after the other, and never gives a reward."""

import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest
from mcp.client import Client
from rich.console import Console

from rollouthub import Outcome
from rollouthub.cli.run.final_tables import print_summary
from rollouthub.engine.run_summary import summarise
from rollouthub.errors import UnknownNameError
from rollouthub.gateway.sessions import practice
from rollouthub.gateway.sessions.practice import NEXT, OVER, Practice
from rollouthub.gateway.sessions.service import HubService, TooMany
from rollouthub.gateway.sessions.service_rules import ServiceRules
from rollouthub.gateway.sessions.sessions_wire import EpisodeRequest
from rollouthub.store import open_run
from tests.gateway.sessions.front import call, front, rpc


@asynccontextmanager
async def tables(directory: Path, **rules: Any) -> AsyncGenerator[tuple[HubService, str]]:
    """A service with practice, and its URL."""
    async with front(directory, rules=ServiceRules(**rules)) as hub:
        made = Practice(hub)
        hub.gateway.practice = made
        yield hub, made.urls[0]


def words(result: Any) -> list[str]:
    """The words of a tool result, block by block."""
    return [block.text for block in result.content]


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_one_session_plays_one_task_after_the_other(tmp_path: Path, era: Any) -> None:
    async with tables(tmp_path / "run") as (hub, url):
        async with Client(url, mode=era) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["add", "wait", "get_task", "submit"]
            assert words(await client.call_tool("add", {})) == ["1"]
            assert words(await client.call_tool("submit", {"answer": "x"}))[-1] == NEXT
            late = await client.call_tool("add", {})
            assert (late.is_error, words(late)) == (True, [OVER])
            assert "count" in words(await client.call_tool("get_task", {}))[0]
            assert words(await client.call_tool("add", {})) == ["1"]
        with anyio.fail_after(60):
            while len(hub.sessions) > 1:  # the first is closed in the background
                await anyio.lowlevel.checkpoint()
        assert len(hub.sessions) == 1
    with open_run(tmp_path / "run") as reader:
        kept = list(reader.rollouts())
    assert [(each.outcome, each.reward, each.agent.name) for each in kept] == [
        (Outcome.CANCELLED, None, "practice"),
        (Outcome.CANCELLED, None, "practice"),
    ]
    assert [call.name for turn in kept[0].turns for call in turn.tool_calls] == ["add", "submit"]
    assert [each.faults[0].type for each in kept] == ["Practice", "HubStopped"]


async def test_a_key_keeps_people_apart_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    async with tables(tmp_path / "run") as (hub, url), aiohttp.ClientSession() as http:
        mine = url.replace("/mcp", "/keykeykey1/mcp")
        assert await call(mine, "add") == "1"
        assert await call(mine, "add") == "2"
        assert await call(url, "add") == "1"
        assert len(hub.sessions) == 2
        for place, status in (("/short/mcp", 400), ("/key%2Fkey%2Fkey/mcp", 400), ("/a/b/mcp", 404)):
            assert (await rpc(http, url.replace("/mcp", place), "tools/list"))[0] == status
        nowhere = f"{hub.gateway.base_url}/practice/chess/mcp"
        assert (await rpc(http, nowhere, "tools/list"))[0] == 404


async def test_nothing_that_ends_practice_scores_it(tmp_path: Path) -> None:
    async with tables(tmp_path / "run") as (hub, url):
        for end in ("seal", "verify", "interrupt"):
            assert await call(url, "get_task")
            (session,) = hub.sessions
            if end == "seal":
                await session.seal()
            elif end == "interrupt":
                assert session.attempt is not None
                session.attempt.interrupt()
            rollout = await (session.verify() if end == "verify" else session.over())
            assert (rollout.outcome, rollout.reward) == (Outcome.CANCELLED, None), end


async def test_practice_that_was_left_is_closed_at_its_expiry_and_dealt_anew(tmp_path: Path) -> None:
    async with tables(tmp_path / "run", ttl_seconds=2) as (hub, url):
        await call(url, "add")
        (session,) = hub.sessions
        assert [fault.type for fault in (await session.over()).faults] == ["Expired"]
        assert await call(url, "add") == OVER
        assert "count" in await call(url, "get_task")


async def test_practice_leaves_room_and_finds_none_where_all_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(practice, "MOST_TABLES", 2)
    async with tables(tmp_path / "run", most_open=2) as (hub, url), aiohttp.ClientSession() as http:
        first, second, third = (url.replace("/mcp", f"/keykeykey{number}/mcp") for number in range(3))
        assert await call(first, "add") == "1"
        assert await call(second, "add") == "1"
        assert (await rpc(http, third, "tools/list"))[0] == 429
        await hub.sessions[0].close()
        with anyio.fail_after(5):
            assert await call(third, "add") == "1"


async def test_practice_moves_nothing_that_is_scored(tmp_path: Path) -> None:
    async with tables(tmp_path / "run", most_open=1, most_practising=2) as (hub, url):
        places = [url.replace("/mcp", f"/keykeykey{number}/mcp") for number in range(3)]
        for place in places[:2]:
            assert await call(place, "add") == "1"
        async with aiohttp.ClientSession() as http:
            assert (await rpc(http, places[2], "tools/list"))[0] == 503
        scored = await hub.open(EpisodeRequest())
        with pytest.raises(TooMany, match="1 episodes are open"):
            await hub.open(EpisodeRequest())
        practised = [session for session in hub.sessions if session.is_practice]
        split = scored.sample.task_ref.split
        assert (scored.sample.task_ref.id, scored.sample.index) == (f"{split}/0", 0)
        assert not scored.id.startswith("practice-")
        assert all(session.id.startswith("practice-") for session in practised)
        assert scored.sample.seed not in {session.sample.seed for session in practised}
    async with front(tmp_path / "run", resume=True) as hub:
        again = await hub.open(EpisodeRequest(task=f"{split}/0"))
        assert again.sample.index == 1


async def test_practice_shows_the_split_it_is_given_and_no_other_name_is_taken(tmp_path: Path) -> None:
    async with front(tmp_path / "run") as hub:
        (served,) = hub.served.values()
        splits = served.card.splits
        assert served.practice.split(None) == next((each for each in splits if each != served.card.split), splits[0])
    async with tables(tmp_path / "named", practice_split=splits[-1]) as (hub, url):
        await call(url, "add")
        assert hub.sessions[0].sample.task_ref.split == splits[-1]
    with pytest.raises(UnknownNameError, match="split of tally"):
        async with front(tmp_path / "bad", rules=ServiceRules(practice_split="nowhere")):
            pass


async def test_all_who_practise_share_one_rate(tmp_path: Path) -> None:
    async with tables(tmp_path / "run", requests_per_second=0.5) as (_, url), aiohttp.ClientSession() as http:
        assert await call(url, "add") == "1"
        other = url.replace("/mcp", "/keykeykey1/mcp")
        assert (await rpc(http, other, "tools/list"))[0] == 429


async def test_no_words_for_an_episode_show_its_token(tmp_path: Path) -> None:
    async with front(tmp_path / "run", model="mock/say?text=hi") as hub:
        session = await hub.open(EpisodeRequest())
        assert session.address.api_key not in f"{session.address!r} {session.ticket()!r} {session.ticket()!s}"


async def test_a_served_run_says_how_hub_serve_goes_on_with_it(tmp_path: Path) -> None:
    async with front(tmp_path / "run") as hub:
        await (await hub.open(EpisodeRequest())).verify()
    with open_run(tmp_path / "run") as reader:
        summary = replace(summarise(reader), status="dead")
    console = Console(width=400, record=True, file=io.StringIO())
    print_summary(console, summary, is_served=True)
    said = console.export_text()
    assert "hub run --resume" not in said
    assert f"hub serve … -o {tmp_path / 'run'} --resume" in said


async def test_a_foreign_origin_may_not_practise(tmp_path: Path) -> None:
    async with tables(tmp_path / "run") as (_, url), aiohttp.ClientSession() as http:
        async with http.post(url, headers={"Origin": "http://evil.example"}) as response:
            assert response.status == 403
        async with http.get(url) as response:
            assert response.status == 405
