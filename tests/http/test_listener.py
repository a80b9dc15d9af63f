"""The listener bounds what strangers can hold open."""

import asyncio
import resource
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import anyio
import pytest
from anyio.abc import SocketStream, TaskStatus
from anyio.lowlevel import checkpoint

from rollouthub.event_loop import allow_open_files, quiet_collector
from rollouthub.http import connections, listener
from rollouthub.http.asgi import Receive, Scope, Send, answer, note_holder, until_gone
from rollouthub.http.listener import bind_tcp, listening

MOST = 3


async def _hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Everybody is served; the path's last part, where there is one, is the token."""
    token = scope["path"].rpartition("/")[2]
    if token:
        note_holder(scope, token.encode())
    if scope["path"].startswith("/slow/"):
        with until_gone(scope):
            await anyio.sleep_forever()
    await answer(send, 200, b"{}")


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[int]:
    """A listener that has three connections."""
    monkeypatch.setattr(connections, "most_connections", lambda: MOST)
    bound = bind_tcp("127.0.0.1", 0)
    with anyio.fail_after(20):
        async with listening(_hello, bound):
            yield bound.getsockname()[1]


class Client:
    """One connection."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream

    async def ask(self, path: str = "/") -> None:
        """Send a request."""
        await self._stream.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    async def is_answered(self) -> bool:
        """Whether the answer comes, rather than the end of the connection."""
        try:
            return (await self._stream.receive()).startswith(b"HTTP/1.1 200")
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return False

    async def asks(self, path: str = "/") -> bool:
        """Whether a request is answered."""
        try:
            await self.ask(path)
        except anyio.BrokenResourceError:
            return False
        return await self.is_answered()


@asynccontextmanager
async def connected(port: int, *paths: str) -> AsyncGenerator[list[Client]]:
    """A connection for each path, which was asked for on it."""
    async with AsyncExitStack() as stack:
        clients = list[Client]()
        for path in paths:
            clients.append(Client(await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port))))
            if path.startswith("/slow/"):
                await clients[-1].ask(path)
            else:
                assert await clients[-1].asks(path)
        yield clients


async def test_beyond_the_bound_the_longest_idle_stranger_is_closed(port: int) -> None:
    async with connected(port, "/known", "/", "/") as (known, first, second):
        assert await first.asks()  # so the second is idle for longer
        async with connected(port, "/"):
            assert not await second.is_answered()
            assert await first.asks()
            assert await known.asks("/known")


async def test_where_there_are_no_strangers_whoever_has_most_makes_room(port: int) -> None:
    async with connected(port, "/honest", "/greedy", "/greedy") as (honest, first, second):
        assert await first.asks("/greedy")
        async with connected(port, "/new"):
            assert not await second.is_answered()
            assert await first.asks("/greedy")
            assert await honest.asks("/honest")


async def test_nobody_who_is_being_answered_is_closed(port: int) -> None:
    slow = "/slow/one", "/slow/one", "/slow/"
    async with connected(port, *slow), await anyio.connect_tcp("127.0.0.1", port) as extra:
        assert not await Client(extra).is_answered()
    async with connected(port, "/"):  # those who left made room
        pass


async def test_strangers_are_kept_for_a_shorter_time(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "STRANGER_SECONDS", 0.05)
    async with connected(port, "/", "/known") as (stranger, known):
        assert not await stranger.is_answered()
        assert await known.asks("/known")


def test_the_bound_leaves_files_to_the_rest_and_is_raised_as_far_as_may_be() -> None:
    allow_open_files()
    files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert files == hard or files >= 10_240
    assert 0 < connections.most_connections() < files // 2


@pytest.mark.parametrize("ends", ["cancelled", "failed"])
async def test_nobody_is_served_after_the_owner_was_cancelled_or_failed(ends: str) -> None:
    bound = bind_tcp("127.0.0.1", 0)
    own = bound.getsockname()[1]
    with anyio.fail_after(20):
        try:
            with anyio.CancelScope() as scope:
                async with listening(_hello, bound), connected(own, "/"):
                    if ends == "failed":
                        raise ValueError(ends)
                    scope.cancel()
                    await anyio.sleep_forever()
        except* ValueError:
            pass
        with pytest.raises(OSError):
            await anyio.connect_tcp("127.0.0.1", own)


async def test_a_request_in_flight_is_answered_though_the_owner_was_cancelled() -> None:
    asked, released, owner = anyio.Event(), anyio.Event(), anyio.CancelScope()
    bound = bind_tcp("127.0.0.1", 0)
    own = bound.getsockname()[1]

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        await released.wait()
        await answer(send, 200, b"{}")

    async def serve(*, task_status: TaskStatus[None]) -> None:
        with owner:
            async with listening(waits, bound):
                task_status.started()
                await anyio.sleep_forever()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            await tasks.start(serve)
            async with await anyio.connect_tcp("127.0.0.1", own) as stream:
                client = Client(stream)
                await client.ask()
                await asked.wait()
                owner.cancel()
                while bound.fileno() >= 0:
                    await checkpoint()
                released.set()
                assert await client.is_answered()


async def test_who_does_not_read_holds_no_connection_after_the_end() -> None:
    size, asked, bound = 2**26, anyio.Event(), bind_tcp("127.0.0.1", 0)

    async def floods(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        await answer(send, 200, b"x" * size)

    with anyio.fail_after(20):
        async with listening(floods, bound):
            stream = await anyio.connect_tcp("127.0.0.1", bound.getsockname()[1])
            await Client(stream).ask()
            await asked.wait()
        received = 0
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    received += len(await stream.receive(2**20))
    assert received < size


@pytest.mark.parametrize("is_fast", [False, True], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("turns", range(6))
def test_who_connects_in_the_turns_before_the_end_is_hung_up_on(turns: int, is_fast: bool) -> None:
    async def hangs_up() -> bool:
        bound, loop = bind_tcp("127.0.0.1", 0), asyncio.get_running_loop()
        with socket.socket() as client:
            async with listening(_hello, bound):
                client.connect(bound.getsockname())  # the kernel answers, before anybody accepts
                for _ in range(turns):
                    await asyncio.sleep(0)
            client.setblocking(False)
            with anyio.fail_after(5):
                try:
                    return not await loop.sock_recv(client, 1)
                except ConnectionResetError:
                    return True

    with quiet_collector():  # which would close a connection that nothing but a cycle holds
        assert anyio.run(hangs_up, backend_options={"use_uvloop": is_fast})
