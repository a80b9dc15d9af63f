"""The socket: who may come in, what they may send, and that the run does not care."""

import json
import socket
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from rollouthub.live.control import broadcast
from rollouthub.live.control import live_connection as connection
from rollouthub.live.control import live_server as door
from rollouthub.live.control.live_protocol import LONGEST_REQUEST
from rollouthub.live.control.live_server import MOST_CLIENTS

from .conftest import IS_ROOT, PATIENCE_SECONDS, Guest, Watch, until


class Raw:
    """A client that says what it likes."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.socket.connect(str(path))
        self._file = self.socket.makefile("rb")

    async def send(self, line: bytes) -> None:
        await anyio.to_thread.run_sync(self.socket.sendall, line)

    async def read(self) -> Any:
        """The next line; None at the end."""
        line = await anyio.to_thread.run_sync(self._file.readline)
        return json.loads(line) if line else None

    async def read_all(self) -> list[Any]:
        """The lines until the end."""
        return [json.loads(line) for line in await anyio.to_thread.run_sync(self._file.readlines)]

    async def ask(self, line: bytes) -> Any:
        await self.send(line + b"\n")
        return await self.read()


@contextmanager
def raw(path: Path) -> Generator[Raw]:
    client = Raw(path)
    with client.socket, client._file:  # pyright: ignore[reportPrivateUsage]
        yield client


LIST = b'{"id":1,"method":"list"}'


async def test_socket_and_folder_are_the_users_alone_and_gone_with_the_run(watch: Watch, runtime: Path) -> None:
    async with watch(Guest()) as run:
        (path,) = run.sockets
        assert path.parent == runtime / "rollouthub"
        assert run.live.facts is not None
        assert path.stem == run.live.facts.run_id
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == []


ASK_AS_NOBODY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as client:
    client.settimeout(10)
    try:
        client.connect(sys.argv[1])
    except PermissionError:
        print("no way in")
    else:
        try:
            client.sendall(b'{"id":1,"method":"cancel","run":true}\\n')
        except OSError:
            pass  # shown out before it could speak
        print(client.makefile().readline())
"""


def open_to_all(*paths: Path) -> None:
    for path in paths:
        path.chmod(0o777)


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
@pytest.mark.parametrize("are_modes_open", [False, True])
async def test_another_user_is_refused_even_where_modes_let_him_in(
    watch: Watch, runtime: Path, are_modes_open: bool
) -> None:
    guest = Guest()
    async with watch(guest) as run:
        await until(lambda: guest.waiting == 3)
        (path,) = run.sockets
        if are_modes_open:
            open_to_all(runtime, path.parent, path)
        command = [sys.executable, "-c", ASK_AS_NOBODY, str(path)]
        done = await anyio.run_process(command, check=True)
        said = done.stdout.decode()
        assert ("refused" in said and "another user" in said) if are_modes_open else "no way in" in said
        assert guest.waiting == 3
        assert not run.stop.is_set


GARBAGE = [
    b"hello",
    b"{}",
    b"[]",
    b"null",
    b"7",
    b'"list"',
    b"\x00\xff\xfe",
    b"{",
    b'{"id":1}',
    b'{"method":"list"}',
    b'{"id":1,"method":"explode"}',
    b'{"id":1,"method":"__class__"}',
    b'{"id":1,"method":"list","limit":-1}',
    b'{"id":1,"method":"list","limit":1e99}',
    b'{"id":1,"method":"list","extra":1}',
    b'{"id":[1],"method":"list"}',
    b'{"id":%s,"method":"list"}' % (b"9" * 4000),
    b'{"id":"%s","method":"list"}' % (b"x" * 65),
    b'{"id":1,"method":"cancel"}',
    b'{"id":1,"method":"cancel","run":false}',
    b'{"id":1,"method":"cancel","run":true,"rollout":"x"}',
    b'{"id":1,"method":"interrupt","rollout":""}',
    b'{"id":1,"method":"show","rollout":"../../etc/passwd"}',
    b'{"id":1,"method":"show","rollout":{"$gt":""}}',
    b'{"id":1,"method":"retune"}',
    b'{"id":1,"method":"pause","run":true}',
    b'{"id":1,"method":"tell","rollout":"x"}',
    b'{"id":1,"method":"tell","rollout":"x","text":""}',
    b'{"id":1,"method":"tell","rollout":"x","text":["a"]}',
    b'{"id":1,"method":"tell","rollout":"x","text":"\\ud800"}',
    b'{"id":1,"method":"retry"}',
    b'{"id":1,"method":"retune","concurrency":0}',
    b'{"id":1,"method":"retune","concurrency":1000000000}',
    b'{"id":1,"method":"retune","limits":{"max_turns":1}}',
    b'{"id":1,"method":"retune","rollout":"x","limits":{"max_seconds":NaN}}',
    b'{"id":1,"method":"retune","rollout":"x","limits":{"max_seconds":Infinity}}',
    b'{"id":1,"method":"retune","rollout":"x","limits":{"max_response_tokens":1}}',
    b"[" * 60_000,
    b'{"id":1,"method":"list"}{"id":2,"method":"list"}',
    b"GET / HTTP/1.1\r",
]


async def test_garbage_is_refused_line_by_line_and_changes_nothing(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest) as run:
        await until(lambda: guest.waiting == 3)
        with raw(run.sockets[0]) as client:
            for line in GARBAGE:
                answer = await client.ask(line)
                assert answer["error"]["kind"] in ("bad_request", "unknown_rollout"), line
                assert answer["id"] in (1, None), line
            assert (await client.ask(b"\n\n" + LIST))["result"]["run"]["in_flight"] == 3
        assert guest.waiting == 3
        assert run.live.state == "running"


async def test_a_line_without_an_end_is_refused_and_its_client_let_go(watch: Watch) -> None:
    async with watch(Guest()) as run:
        with raw(run.sockets[0]) as client:
            await client.send(b"x" * (LONGEST_REQUEST + 1))
            assert str(LONGEST_REQUEST) in (await client.read())["error"]["message"]
            assert await client.read() is None


async def test_a_request_that_came_in_pieces_or_with_others_is_answered(watch: Watch) -> None:
    async with watch(Guest()) as run:
        with raw(run.sockets[0]) as client:
            for byte in LIST + b"\n":
                await client.send(bytes([byte]))
            assert (await client.read())["id"] == 1
            await client.send(b"".join(b'{"id":%d,"method":"list"}\n' % number for number in range(9)))
            assert [(await client.read())["id"] for _ in range(9)] == list(range(9))


async def test_half_a_request_holds_up_nobody_and_not_for_long(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LINE_SECONDS", 0.2)
    async with watch(Guest()) as run:
        with raw(run.sockets[0]) as half, raw(run.sockets[0]) as whole:
            await half.send(LIST[:9])
            assert (await whole.ask(LIST))["id"] == 1
            assert await half.read() is None


async def test_a_client_that_says_nothing_is_let_go(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.1)
    async with watch(Guest()) as run:
        with raw(run.sockets[0]) as client:
            assert await client.read() is None


async def test_a_client_that_has_done_speaking_still_gets_its_answer(watch: Watch) -> None:
    async with watch(Guest()) as run:
        with raw(run.sockets[0]) as client:
            await client.send(LIST + b"\n")
            client.socket.shutdown(socket.SHUT_WR)
            assert (await client.read())["id"] == 1
            assert await client.read() is None


async def test_clients_that_vanish_leave_nothing_behind(watch: Watch) -> None:
    async with watch(Guest()) as run:
        for line in (b"", LIST[:5], LIST + b"\n", b'{"id":1,"method":"events"}\n'):
            for _ in range(MOST_CLIENTS):
                with raw(run.sockets[0]) as client:
                    await client.send(line)
            await until(lambda: not run.live.watchers)
        async with run.knock() as polite:
            assert (await polite.list()).run.in_flight == 3


async def test_more_clients_than_fit_are_told_so(watch: Watch) -> None:
    async with watch(Guest()) as run:
        (path,) = run.sockets
        clients = [Raw(path) for _ in range(MOST_CLIENTS)]
        for client in clients:
            await client.ask(LIST)
        with raw(path) as late:
            assert (await late.read())["error"]["kind"] == "busy"
        for client in clients:
            client._file.close()  # pyright: ignore[reportPrivateUsage]
            client.socket.close()
        with anyio.fail_after(PATIENCE_SECONDS):
            while True:
                # One that is refused may be hung up on while it still asks.
                with suppress(ConnectionError), raw(path) as again:
                    if "result" in await again.ask(LIST):
                        break


async def test_requests_go_on_between_events_and_following_twice_is_refused(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest) as run:
        await until(lambda: guest.waiting == 3)
        with raw(run.sockets[0]) as client:
            assert (await client.ask(b'{"id":"e","method":"events"}'))["result"] == {"following": True, "in_flight": 3}
            assert (await client.ask(b'{"id":"f","method":"events"}'))["error"]["kind"] == "bad_request"
            name = run.ids()[0]
            await client.send(b'{"id":"i","method":"interrupt","rollout":"%s"}\n' % name.encode())
            lines = [await client.read() for _ in range(4)]
            assert {line["id"] for line in lines} == {"e", "i"}
            assert all("event" in line for line in lines if line["id"] == "e")


async def test_a_follower_that_never_reads_slows_nothing_down(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_FAREWELL_SECONDS", 10)
    monkeypatch.setattr(door, "_LONGEST_FAREWELL_SECONDS", 10)
    monkeypatch.setattr(broadcast, "MOST_WAITING", 50)
    guest = Guest()
    async with watch(guest, limit=300, concurrency=8) as run:
        await until(lambda: guest.waiting == 8)
        with raw(run.sockets[0]) as client:
            await client.ask(b'{"id":1,"method":"events"}')
            guest.gate.set()
            await until(lambda: run.live.ending)
            assert len(run.live.attempts) == 0
            events = [line["event"] for line in await client.read_all()]
            await run.over.wait()
    assert sum(map(len, run.records().values())) == 300
    dropped = sum(event["count"] for event in events if event["kind"] == "dropped")
    told = sum(event["kind"] != "dropped" for event in events)
    assert dropped > 0
    assert events[-1]["kind"] == "run_ended"
    assert told + dropped > 300 * 7


async def test_a_follower_that_reads_nothing_to_the_end_does_not_hold_the_run(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "_FAREWELL_SECONDS", 0.1)
    guest = Guest()
    async with watch(guest, limit=300, concurrency=8) as run:
        await until(lambda: guest.waiting == 8)
        with raw(run.sockets[0]) as client:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await client.ask(b'{"id":1,"method":"events"}')
            guest.gate.set()
            with anyio.fail_after(PATIENCE_SECONDS):
                await run.over.wait()
