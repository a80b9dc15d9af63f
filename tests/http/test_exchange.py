"""The small HTTP client, against servers that answer well, badly and not at all."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from yarl import URL

from rollouthub.http.exchange import AnswerTooLarge, BrokenExchange, NotConnected, open_pool

MOST_BYTES = 1000
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell"


class Server:
    """Answers every request with the same bytes, of each connection no more than so many."""

    def __init__(self, answer: bytes, requests_each: int) -> None:
        self.requests: list[list[bytes]] = []
        """Of each connection."""
        self.asked = anyio.Event()
        """Set once a request has come."""
        self.left = anyio.Event()
        """Set once a client has closed its connection."""
        self._answer, self._requests_each = answer, requests_each

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        asked: list[bytes] = []
        self.requests.append(asked)
        try:
            while len(asked) < self._requests_each:
                request = await reader.readuntil(b"\r\n\r\n")
                if b"Content-Length: 3\r\n" in request:
                    request += await reader.readexactly(3)
                asked.append(request)
                self.asked.set()
                writer.write(self._answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: bytes, requests_each: int = 1000) -> AsyncGenerator[tuple[Server, URL]]:
    """A server, and where it is."""
    server = Server(answer, requests_each)
    async with await asyncio.start_server(server.handle, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()
        yield server, URL(f"http://{host}:{port}/some/path?q=1")


async def ask(answer: bytes, requests_each: int = 1000) -> tuple[int, bytes]:
    """What one request for this answer comes to."""
    with anyio.fail_after(5):
        async with serving(answer, requests_each) as (_, url), open_pool() as pool:
            return await pool.exchange("POST", url, b"abc", {}, most_bytes=MOST_BYTES)


async def test_a_request_says_what_was_asked() -> None:
    async with serving(WHOLE) as (server, url), open_pool(headers={"X-Pool": "1"}) as pool:
        assert await pool.exchange("POST", url, b"abc", {"X-Call": "2"}, most_bytes=MOST_BYTES) == (200, b"well")
    head, _, body = server.requests[0][0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /some/path?q=1 HTTP/1.1"
    assert {b"X-Pool: 1", b"X-Call: 2", b"Content-Length: 3", b"Host: 127.0.0.1:%d" % (url.port or 0)} <= {*lines}
    assert body == b"abc"


async def test_a_connection_is_kept_for_the_next_request() -> None:
    async with serving(WHOLE) as (server, url), open_pool() as pool:
        for _ in range(3):
            await pool.exchange("GET", url, None, {}, most_bytes=MOST_BYTES)
    assert [len(asked) for asked in server.requests] == [3]


async def test_requests_at_once_have_connections_of_their_own() -> None:
    async with serving(WHOLE) as (server, url), open_pool() as pool, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(lambda: pool.exchange("GET", url, None, {}, most_bytes=MOST_BYTES))
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nwe\r\n2\r\nll\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE,
        b"HTTP/1.0 200 OK\r\n\r\nwell",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nwell",
    ],
    ids=["chunked", "announced", "to the end, HTTP/1.0", "to the end"],
)
async def test_an_answer_is_read_however_it_is_framed(answer: bytes) -> None:
    assert await ask(answer, requests_each=1) == (200, b"well")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no HTTP answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nwell", "before the answer was whole"),
        (b"", "before the answer was whole"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nwell", "compressed"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-More: yes\r\n" * 10_000, "headers are larger"),
    ],
    ids=["another protocol", "cut short", "nothing", "compressed", "endless headers"],
)
async def test_what_is_no_answer_breaks_the_exchange(answer: bytes, words: str) -> None:
    with pytest.raises(BrokenExchange, match=words):
        await ask(answer, requests_each=1)


@pytest.mark.parametrize("length", [b"Content-Length: 1001", b"Transfer-Encoding: chunked"])
async def test_an_answer_that_is_too_large_is_refused(length: bytes) -> None:
    body = b"x" * 1001 if b"Length" in length else b"3e9\r\n" + b"x" * 1001 + b"\r\n0\r\n\r\n"
    with pytest.raises(AnswerTooLarge):
        await ask(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + body)


async def test_what_nobody_asked_for_ends_a_kept_connection() -> None:
    with anyio.fail_after(5):
        async with serving(WHOLE + WHOLE) as (server, url), open_pool() as pool:
            for _ in range(2):
                assert await pool.exchange("GET", url, None, {}, most_bytes=MOST_BYTES) == (200, b"well")
    assert [len(asked) for asked in server.requests] == [1, 1]


async def test_a_repeatable_request_is_sent_again_where_the_kept_connection_was_closed() -> None:
    with anyio.fail_after(5):
        async with serving(WHOLE, requests_each=1) as (server, url), open_pool() as pool:
            for _ in range(3):
                assert await pool.exchange("GET", url, None, {}, most_bytes=MOST_BYTES) == (200, b"well")
    assert len(server.requests) == 3


async def test_a_cancelled_request_hangs_up() -> None:
    with anyio.fail_after(5):
        async with serving(b"") as (server, url), open_pool() as pool:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: pool.exchange("POST", url, b"abc", {}, most_bytes=MOST_BYTES))
                await server.asked.wait()
                tasks.cancel_scope.cancel()
            await server.left.wait()


async def test_a_header_cannot_smuggle_another() -> None:
    async with serving(WHOLE) as (server, url), open_pool() as pool:
        with pytest.raises(ValueError, match="line break"):
            await pool.exchange("GET", url, None, {"Mcp-Name": "x\r\nHost: evil"}, most_bytes=MOST_BYTES)
    assert server.requests == []


async def test_a_unix_socket_serves_as_well(tmp_path: Path) -> None:
    server, path = Server(WHOLE, 1), str(tmp_path / "s")
    async with await asyncio.start_unix_server(server.handle, path), open_pool(path) as pool:
        found = await pool.exchange("GET", URL("http://control/health"), None, {}, most_bytes=MOST_BYTES)
    assert found == (200, b"well")


async def test_where_nothing_listens_there_is_no_connection(tmp_path: Path) -> None:
    async with open_pool(str(tmp_path / "nobody")) as pool:
        with pytest.raises(NotConnected, match="No such file"):
            await pool.exchange("GET", URL("http://control/"), None, {}, most_bytes=MOST_BYTES)
    async with serving(WHOLE) as (_, url):
        pass
    async with open_pool() as pool:
        with pytest.raises(NotConnected, match="Connection refused"):
            await pool.exchange("GET", url, None, {}, most_bytes=MOST_BYTES)


async def test_a_closed_pool_closes_its_connections() -> None:
    async with serving(WHOLE) as (server, url):
        async with open_pool() as pool:
            await pool.exchange("GET", url, None, {}, most_bytes=MOST_BYTES)
        with anyio.fail_after(5):
            await server.left.wait()
