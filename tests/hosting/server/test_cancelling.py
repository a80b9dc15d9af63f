"""Calls nobody waits for any more: cancelled, cleaned up after, and out of the way before the next one."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
import pytest
from anyio.abc import TaskGroup
from mcp import MCPError

from rollouthub.hosting.control_wire import OpenedEpisode
from rollouthub.hosting.local.hosted_episode import CLOSED
from rollouthub.hosting.server.served_episode import MOST_CALLS, TOO_MANY
from tests.hosting.local.worlds import Workshop, world_of
from tests.hosting.server.wire_client import ACCEPT, META, MODERN, Session, WireClient, client, said, served

ERAS = ["modern", "legacy"]


@asynccontextmanager
async def waiting(
    wire: WireClient, era: str
) -> AsyncGenerator[tuple[OpenedEpisode, Workshop, TaskGroup, Session | None]]:
    """An episode with one call in flight; it ends with the context's task group, and takes its connection along."""
    episode = await wire.open()
    world = world_of(wire.episode(episode.id), Workshop)
    url = episode.seats[0].url
    session = await wire.begin(url) if era == "legacy" else None

    async def wait() -> None:
        await (session.call("wait") if session else wire.call(url, "wait"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await world.is_waiting.wait()
        yield episode, world, tasks, session


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_leaves_cancels_its_call(era: str) -> None:
    async with served(Workshop) as wire:
        async with waiting(wire, era) as (episode, world, tasks, _):
            tasks.cancel_scope.cancel()
        served_episode = wire.serving.episodes.find(episode.id)
        await served_episode.settle()
        while served_episode.in_flight:
            await anyio.lowlevel.checkpoint()
        assert (world.waiting, world.cleaned) == (1, 1)


@pytest.mark.parametrize("era", ERAS)
async def test_the_next_call_finds_the_left_ones_clean_up_done(era: str) -> None:
    async with served(Workshop) as wire:
        async with waiting(wire, era) as (episode, world, tasks, session):
            world.may_clean = anyio.Event()
            tasks.cancel_scope.cancel()
        url = episode.seats[0].url
        answered = anyio.Event()

        async def call_again() -> None:
            answer = await (session.call("note", text="next") if session else wire.call(url, "note", text="next"))
            assert answer.text == '["next"]'
            assert world.cleaned == 1
            answered.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call_again)
            # The next call is at the server, and waits.
            with anyio.move_on_after(0.2):
                await answered.wait()
            assert (answered.is_set(), world.cleaned) == (False, 0)
            world.may_clean.set()


async def test_a_client_that_times_out_cancels_its_call() -> None:
    for era in ("auto", "legacy"):
        async with served(Workshop) as wire:
            episode = await wire.open()
            world = world_of(wire.episode(episode.id), Workshop)
            async with client(episode.seats[0].url, era) as agent:
                with pytest.raises(MCPError):
                    await agent.call_tool("wait", {}, read_timeout_seconds=1)
                assert said(await agent.call_tool("note", {"text": "next"})) == '["next"]'
                assert world.cleaned == 1


async def test_a_legacy_client_may_cancel_a_request_by_its_id() -> None:
    async with served(Workshop) as wire, waiting(wire, "legacy") as (_, world, tasks, session):
        assert session is not None
        world.may_clean = anyio.Event()
        answered = anyio.Event()

        async def call_again() -> None:
            assert (await session.call("note", text="next")).text == '["next"]'
            assert world.cleaned == 1
            answered.set()

        # The session's requests are counted: initialize was 1, the waiting call is 2.
        await session.tell("notifications/cancelled", {"requestId": 2})
        tasks.start_soon(call_again)
        with anyio.move_on_after(0.2):
            await answered.wait()
        assert (answered.is_set(), world.cleaned) == (False, 0)
        world.may_clean.set()


async def test_one_session_cannot_cancel_anothers_request() -> None:
    async with served(Workshop) as wire, waiting(wire, "legacy") as (episode, world, tasks, _):
        other = await wire.begin(episode.seats[0].url)
        await other.tell("notifications/cancelled", {"requestId": 2})
        assert (await other.call("note", text="next")).text == '["next"]'
        assert world.cleaned == 0
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("era", ERAS)
async def test_the_seal_ends_a_call_in_flight(era: str) -> None:
    async with served(Workshop) as wire:
        episode = await wire.open()
        url = episode.seats[0].url
        world = world_of(wire.episode(episode.id), Workshop)
        session = await wire.begin(url) if era == "legacy" else None

        async def wait() -> None:
            answer = await (session.call("wait") if session else wire.call(url, "wait"))
            assert (answer.text, answer.is_error) == (CLOSED, True)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await world.is_waiting.wait()
            status = await wire.control("POST", f"/v1/episodes/{episode.id}/seal")
            assert (status.json["state"], world.cleaned) == ("sealed", 1)


async def test_the_seal_ends_legacy_sessions() -> None:
    async with served(Workshop) as wire:
        episode = await wire.open()
        seat = next(iter(wire.serving.episodes.find(episode.id).seats.values()))
        session = await wire.begin(episode.seats[0].url)
        assert len(seat.sessions) == 1
        await session.call("submit", answer="yes")
        assert len(seat.sessions) == 0
        answer = await session.call("note", text="late")
        assert (answer.text, "mcp-session-id" in answer.headers) == (CLOSED, False)


async def test_too_many_calls_at_once_are_refused_as_a_tool_error() -> None:
    async with served(Workshop) as wire:
        episode = await wire.open()
        url = episode.seats[0].url
        world = world_of(wire.episode(episode.id), Workshop)
        async with anyio.create_task_group() as tasks:
            for _ in range(MOST_CALLS):
                tasks.start_soon(wire.call, url, "wait")
            while world.waiting < MOST_CALLS:
                await anyio.lowlevel.checkpoint()
            answer = await wire.call(url, "note", text="one more")
            assert (answer.text, answer.is_error) == (TOO_MANY, True)
            world.may_finish.set()


async def test_calls_of_others_are_left_alone() -> None:
    async with served(Workshop) as wire, waiting(wire, "modern") as (_, world, tasks, _):
        async with waiting(wire, "modern") as (_, other, others, _):
            others.cancel_scope.cancel()
        while not other.cleaned:
            await anyio.lowlevel.checkpoint()
        assert world.cleaned == 0
        tasks.cancel_scope.cancel()


async def test_a_client_that_leaves_after_a_large_message_is_noticed() -> None:
    async with served(Workshop) as wire:
        episode = await wire.open()
        world = world_of(wire.episode(episode.id), Workshop)
        params = {"name": "wait", "arguments": {}, "_meta": {**META, "padding": "x" * 3_000_000}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        url = urlsplit(episode.seats[0].url)
        assert url.port is not None
        async with await anyio.connect_tcp("127.0.0.1", url.port) as stream:
            # By hand and at once: reading is paused over what comes faster than it is taken.
            head = f"POST {url.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
            head += f"MCP-Protocol-Version: {MODERN}\r\nMcp-Method: tools/call\r\nMcp-Name: wait\r\n"
            head += "".join(f"{name}: {value}\r\n" for name, value in ACCEPT.items())
            await stream.send(head.encode() + b"\r\n" + body)
            await world.is_waiting.wait()
        while not world.cleaned:
            await anyio.lowlevel.checkpoint()
