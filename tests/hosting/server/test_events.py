"""An episode's events as they are streamed: from its opening to its end, and nothing of what was said."""

import json

import anyio
import pytest

from rollouthub.hosting.server import control_http
from rollouthub.hosting.server import event_log as events
from rollouthub.hosting.server.event_log import EventLog
from tests.hosting.local.worlds import CANARY, Workshop
from tests.hosting.server.wire_client import TOKEN, WireClient, served


def parsed(stream: bytes) -> list[tuple[int, str, dict[str, object]]]:
    """A stream's events: number, kind and facts."""
    found: list[tuple[int, str, dict[str, object]]] = []
    for block in stream.decode().split("\n\n"):
        if block and not block.startswith(":"):
            fields = dict(line.split(": ", 1) for line in block.splitlines())
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found


async def stream(wire: WireClient, episode_id: str, query: str = "") -> bytes:
    """The events to their end."""
    answer = await wire.control("GET", f"/v1/episodes/{episode_id}/events{query}")
    assert answer.headers["content-type"] == "text/event-stream"
    return answer.body


async def test_a_watcher_sees_every_step_to_the_end() -> None:
    async with served(Workshop) as wire:
        opened = await wire.open()
        streams: list[bytes] = []

        async def watch() -> None:
            streams.append(await stream(wire, opened.id))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            await wire.call(opened.seats[0].url, "note", text=CANARY)
            await wire.call(opened.seats[0].url, "refuse")
            await wire.call(opened.seats[0].url, "submit", answer="yes")
            await wire.control("POST", f"/v1/episodes/{opened.id}/verify")
            await wire.control("DELETE", f"/v1/episodes/{opened.id}")
        told = parsed(streams[0])
        assert [kind for _, kind, _ in told] == [
            "opened",
            *["call_started", "call_ended"] * 3,
            "sealed",
            "verified",
            "closed",
        ]
        assert [number for number, _, _ in told] == list(range(1, 11))
        assert (told[2][2]["tool"], told[2][2]["outcome"]) == ("note", "ok")
        assert (told[4][2]["tool"], told[4][2]["outcome"]) == ("refuse", "error")
        for secret in (CANARY, opened.seats[0].token, TOKEN):
            assert secret not in streams[0].decode()


async def test_a_watcher_may_go_on_where_it_was() -> None:
    async with served(Workshop) as wire:
        opened = await wire.open()
        await wire.call(opened.seats[0].url, "note", text="x")
        streams: list[bytes] = []

        async def watch() -> None:
            streams.append(await stream(wire, opened.id, "?after=2"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            while not streams and not wire.serving.episodes.find(opened.id).events.is_watched:
                await anyio.lowlevel.checkpoint()
            await wire.control("DELETE", f"/v1/episodes/{opened.id}")
        assert [number for number, _, _ in parsed(streams[0])] == [3, 4, 5]


async def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog()
    for number in range(events.HISTORY + 5):
        log.add("step", number=number)
    log.end()
    told = [piece async for piece in log.since(0, 1.0)]
    assert [number for number, _, _ in parsed(b"".join(told))] == list(range(6, events.HISTORY + 6))


async def test_silence_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_http, "KEEP_ALIVE_SECONDS", 0.01)
    async with served(Workshop) as wire:
        opened = await wire.open()
        url = f"{wire.control_url}/v1/episodes/{opened.id}/events"
        async with wire.http.get(url, headers={"Authorization": f"Bearer {TOKEN}"}) as response:
            async for line in response.content:
                if line.startswith(b": keep-alive"):
                    break


async def test_a_watcher_that_leaves_is_forgotten() -> None:
    async with served(Workshop) as wire:
        opened = await wire.open()
        url = f"{wire.control_url}/v1/episodes/{opened.id}/events"
        async with wire.http.get(url, headers={"Authorization": f"Bearer {TOKEN}"}) as response:
            assert b"id: 1" in await response.content.readline()
            log = wire.serving.episodes.find(opened.id).events
            while not log.is_watched:
                await anyio.lowlevel.checkpoint()
            response.close()
        while log.is_watched:
            await anyio.lowlevel.checkpoint()
