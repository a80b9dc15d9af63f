"""Strangers and crowds: who sends slowly, too much or nonsense holds up nobody else, nor does who leaves."""

import http.client
import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import anyio.to_thread
import pytest

from rollouthub.trainers.reward_server import request_places as places
from rollouthub.trainers.reward_server.request_bodies import Arrivals
from rollouthub.trainers.reward_server.request_places import MOST_MARKS
from tests.trainers.reward_server.served import (
    ECHO,
    PLAIN,
    TOKEN,
    Wire,
    encoded,
    gate,
    listening_rewards,
    png,
    reward_server,
    rewards,
    task,
    wires,
)

ALLOWED = {"authorization": f"Bearer {TOKEN}"}
ANSWERS = {"answers": [{"task": task(1), "answer": "1"}]}
PICTURE = {"images": [encoded(png())], "prompts": ["red"]}
SLOW = 80


async def began() -> Any:
    """The module of the scorer behind the gate, once it is in it."""
    module = sys.modules["rollouthub_scorer_gate"]
    assert await anyio.to_thread.run_sync(module.began.wait, 20)
    return module


async def status_of(url: str, body: Any = ANSWERS, path: str = "/v1/rewards") -> int:
    """Of one request on a connection of its own."""
    async with aiohttp.ClientSession(url, headers=ALLOWED) as session, session.post(path, json=body) as response:
        return response.status


async def test_more_slow_senders_than_there_are_places_keep_nobody_from_an_answer() -> None:
    async with reward_server(ECHO, most_requests=2) as url, wires(int(url.rpartition(":")[2]), SLOW) as slow:
        for wire in slow:
            await wire.begin()
            await wire.stream.send(b"{")
        assert [await status_of(url) for _ in range(3)] == [200] * 3


async def test_of_too_many_bodies_the_slowest_makes_way() -> None:
    async with listening_rewards(arrivals=Arrivals(most=3)) as port, wires(port, 5) as five:
        for wire in five:
            await wire.begin(length=12)
        for wire in five[:2]:
            status, reply = await wire.answer()
            assert (status, reply["error"]["message"].partition(",")[0]) == (408, "too many bodies are on their way")
            with pytest.raises(anyio.EndOfStream):
                await wire.stream.receive()
        for wire in five[2:]:
            await wire.stream.send(b'{"answers":[]')
            assert (await wire.answer())[0] == 400, "it was read to its end"


async def test_bodies_on_their_way_are_bounded_in_memory_and_the_newest_is_read() -> None:
    arrivals = Arrivals(max_bytes=3_000_000)
    async with listening_rewards(arrivals=arrivals) as port, wires(port, 2) as (first, second):
        for wire in (first, second):
            await wire.begin(length=2_000_000)
            await wire.stream.send(b" " * 1_800_000)
        assert (await first.answer())[0] == 408
        await second.stream.send(b" " * 200_000)
        assert (await second.answer())[0] == 400


async def test_a_body_that_does_not_come_is_answered_and_not_waited_for() -> None:
    async with listening_rewards(arrivals=Arrivals(seconds=0.05)) as port, wires(port, 1) as (wire,):
        await wire.begin()
        status, reply = await wire.answer()
        assert (status, "within 0.05 seconds" in reply["error"]["message"]) == (408, True)
        with pytest.raises(anyio.EndOfStream):
            await wire.stream.receive()


async def test_a_client_that_still_sends_what_is_too_large_hears_so() -> None:
    async with listening_rewards() as port:

        def ask() -> int:
            with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
                connection.request("POST", "/v1/rewards", b" " * (64 * 2**20 + 1), ALLOWED)
                return connection.getresponse().status

        assert await anyio.to_thread.run_sync(ask) == 413


async def test_what_lists_more_than_is_read_in_a_moment_is_refused_before_it_is_read() -> None:
    body = b'{"answers": [' + b"[]," * (MOST_MARKS // 2) + b"[]]}"
    async with rewards(ECHO) as server:
        status, reply = await server.post("/v1/rewards", body)
        assert (status, "send fewer" in reply["error"]["message"]) == (413, True)


async def test_requests_that_would_take_too_much_memory_together_are_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reward_server(ECHO, scorer=gate(tmp_path), most_requests=2) as url, anyio.create_task_group() as tasks:
        tasks.start_soon(status_of, url, PICTURE, "/v1/images")
        module = await began()
        monkeypatch.setattr(places, "MAX_HELD_BYTES", places.weight_of(json.dumps(PICTURE).encode()) + 100)
        assert await status_of(url) == 429
        monkeypatch.undo()
        assert await status_of(url) == 200
        module.go.set()


async def test_who_leaves_in_the_middle_of_scoring_leaves_a_place(tmp_path: Path) -> None:
    async with reward_server(ECHO, scorer=gate(tmp_path), most_requests=1) as url:
        async with wires(int(url.rpartition(":")[2]), 1) as (wire,):
            body = json.dumps(PICTURE).encode()
            await wire.begin("/v1/images", len(body))
            await wire.stream.send(body)
            module = await began()
            assert await status_of(url) == 429, "there is one place"
        while await status_of(url) == 429:  # until it is seen to have left
            pass
        module.go.set()


async def test_who_does_not_take_an_answer_holds_no_place() -> None:
    async with rewards(ECHO, most_requests=1) as server, anyio.create_task_group() as tasks:
        first, server.taken = server.taken, anyio.Event()
        tasks.start_soon(server.post, "/v1/rewards", ANSWERS)
        await anyio.wait_all_tasks_blocked()
        held, server.taken = server.taken, first
        assert (await server.post("/v1/rewards", ANSWERS))[0] == 200
        held.set()


async def test_told_to_leave_it_ends_what_is_in_flight_and_begins_nothing(tmp_path: Path) -> None:
    over, statuses = anyio.Event(), list[int]()
    async with reward_server(ECHO, scorer=gate(tmp_path), over=over) as url, anyio.create_task_group() as tasks:

        async def ask() -> None:
            statuses.append(await status_of(url, PICTURE, "/v1/images"))

        tasks.start_soon(ask)
        module = await began()
        async with wires(int(url.rpartition(":")[2]), 1) as (arriving,):
            await arriving.begin()
            over.set()
            status, reply = await arriving.answer()
            assert (status, "leaving" in reply["error"]["message"]) == (503, True)
        assert await status_of(url) == 503
        module.go.set()
    assert statuses == [200]


async def test_what_does_not_end_in_time_is_told_that_the_server_leaves(tmp_path: Path) -> None:
    over = anyio.Event()
    started = reward_server(scorer=gate(tmp_path), over=over, leave_seconds=0.05)
    async with started as url, wires(int(url.rpartition(":")[2]), 1) as (wire,):
        body = json.dumps(PICTURE).encode()
        await wire.begin("/v1/images", len(body))
        await wire.stream.send(body)
        module = await began()
        over.set()
        status, reply = await wire.answer()
        assert (status, "leaving" in reply["error"]["message"]) == (503, True)
        module.go.set()


BODY = json.dumps(ANSWERS)
HOST = "Host: 127.0.0.1\r\n"
BEARER = f"Authorization: Bearer {TOKEN}\r\n"
LENGTH = f"Content-Length: {len(BODY)}\r\n"
HEADS = {
    f"{HOST}{BEARER}{LENGTH}": 200,
    f"{HOST}{BEARER}{LENGTH}Content-Type: image/svg+xml\r\n": 200,
    f"{HOST}{BEARER}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n": 400,
    f"{HOST}{BEARER}{LENGTH}Content-Length: 5\r\n": 400,
    f"{HOST}{BEARER}Content-Length: -1\r\n": 400,
    f"{HOST}{BEARER}Content-Length: {'9' * 30}\r\n": 400,
    f"{HOST}{BEARER}Content-Length: {10**15}\r\n": 413,
    f"{HOST}{BEARER}Transfer-Encoding: xchunked\r\n": 400,
    f"{HOST}{BEARER}Content-Length : {len(BODY)}\r\n": 400,
    f"{HOST}{BEARER}{LENGTH}X: a\r\n b\r\n": 400,
    f"{HOST}{BEARER}{LENGTH}X: a\0b\r\n": 400,
    f"{HOST}Host: evil.example\r\n{BEARER}{LENGTH}": 421,
    f"Host: evil.example\r\n{HOST}{BEARER}{LENGTH}": 421,
    f"{BEARER}{LENGTH}": 421,
    f"{HOST}Origin: http://evil.example\r\nOrigin: http://127.0.0.1\r\n{BEARER}{LENGTH}": 403,
    f"{HOST}Origin: null\r\n{BEARER}{LENGTH}": 403,
    f"{HOST}Authorization: Bearer x\r\n{BEARER}{LENGTH}": 401,
}
"""What a request may say of itself, and what comes of it."""
LINES = {
    "GET /v1/rewards HTTP/1.1": 405,
    "OPTIONS * HTTP/1.1": 404,
    "CONNECT evil.example:443 HTTP/1.1": 400,
    "POST v1/rewards HTTP/1.1": 400,
    f"POST /{'a' * 60_000} HTTP/1.1": 404,
    f"POST /{'a' * 70_000} HTTP/1.1": 400,
    "POST /v1%2frewards%00%ff HTTP/1.1": 404,
    "POST /v1/rewards HTTP/9.9": 400,
    "PRI * HTTP/2.0": 400,
}


async def test_ambiguous_and_foreign_requests_are_refused_and_the_next_client_is_served() -> None:
    async with reward_server(ECHO) as url:
        port = int(url.rpartition(":")[2])
        heads = [(f"POST /v1/rewards HTTP/1.1\r\n{head}", status) for head, status in HEADS.items()]
        lines = [(f"{line}\r\n{HOST}{BEARER}{LENGTH}", status) for line, status in LINES.items()]
        for head, status in (*heads, *lines):
            async with wires(port, 1) as (wire,):
                await wire.stream.send(f"{head}\r\n{BODY}".encode())
                assert (await wire.answer())[0] == status, head[:200]
        async with wires(port, 1) as (wire,):
            await wire.stream.send((heads[0][0] + f"\r\n{BODY}").encode() * 3)
            assert [await wire.answer() for _ in range(3)] == [await whole_answer(wire, heads[0][0])] * 3


async def whole_answer(wire: Wire, head: str) -> tuple[int, Any]:
    """Ask once more on a connection that has been used."""
    await wire.stream.send(f"{head}\r\n{BODY}".encode())
    return await wire.answer()


async def test_what_is_no_json_elsewhere_makes_no_reward_here() -> None:
    twice = json.dumps(PICTURE).replace('"prompts": ["red"]', '"prompts": ["blue"], "prompts": ["red"]')
    async with rewards(scorer=PLAIN) as server:
        assert (await server.post("/v1/images", twice.encode()))[1]["rewards"] == [1.0], "the last of a name counts"
        for body in (b'{"images": NaN, "prompts": []}', b'\xef\xbb\xbf{"images": [], "prompts": []}', b'"\\ud800"'):
            assert (await server.post("/v1/images", body))[0] == 400
