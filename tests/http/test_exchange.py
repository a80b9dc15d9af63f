"""The small HTTP client, against servers that answer well, badly and not at all."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from yarl import URL

from rollouthub.http import exchange
from rollouthub.http.exchange import HttpPool, open_pool
from rollouthub.http.no_answer import AnswerTooLarge, AnswerTooSlow, BrokenExchange, NotConnected
from tests.own_certificate import own_certificate

MOST_BYTES = 1000
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell"


def packed(body: bytes, encoding: str = "gzip") -> bytes:
    """An answer whose body is said to be compressed."""
    return f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def bare(body: bytes) -> bytes:
    """A body in the form of `deflate` that has no header."""
    state = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return state.compress(body) + state.flush()


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
        received: list[bytes] = []
        self.requests.append(received)
        try:
            while len(received) < self._requests_each:
                request = await reader.readuntil(b"\r\n\r\n")
                if b"Content-Length: 3\r\n" in request:
                    request += await reader.readexactly(3)
                received.append(request)
                self.asked.set()
                writer.write(self._answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.left.set()
        finally:
            writer.close()


async def asked(pool: HttpPool, method: str, url: URL, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """What one request comes to."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    status, content, _ = await pool.exchange(method, url, body, named, most_bytes=MOST_BYTES, seconds=5)
    return status, content


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
            return await asked(pool, "POST", url, b"abc")


async def test_a_request_says_what_was_asked() -> None:
    async with serving(WHOLE) as (server, url), open_pool(headers={"X-Pool": "1"}) as pool:
        assert await asked(pool, "POST", url, b"abc", X_Call="2") == (200, b"well")
    head, _, body = server.requests[0][0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /some/path?q=1 HTTP/1.1"
    assert {b"X-Pool: 1", b"X-Call: 2", b"Content-Length: 3", b"Host: 127.0.0.1:%d" % (url.port or 0)} <= {*lines}
    assert body == b"abc"


async def test_a_user_in_the_address_is_sent_as_one() -> None:
    async with serving(WHOLE) as (server, url), open_pool() as pool:
        await asked(pool, "GET", url.with_user("me").with_password("a:b"))
    assert b"Authorization: Basic bWU6YTpi\r\n" in server.requests[0][0]


async def test_a_connection_is_kept_for_the_next_request() -> None:
    async with serving(WHOLE) as (server, url), open_pool() as pool:
        for _ in range(3):
            await asked(pool, "GET", url)
    assert [len(each) for each in server.requests] == [3]


async def test_requests_at_once_have_connections_of_their_own() -> None:
    async with serving(WHOLE) as (server, url), open_pool() as pool, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(lambda: asked(pool, "GET", url))
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
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 4\r\n\r\nwell", "compressed"),
        (packed(b"well"), "cannot be unpacked"),
        (packed(gzip.compress(b"well")[:-4]), "before the answer was whole"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-More: yes\r\n" * 10_000, "headers are larger"),
    ],
    ids=["another protocol", "cut short", "nothing", "brotli", "no gzip", "half gzip", "endless headers"],
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
                assert await asked(pool, "GET", url) == (200, b"well")
    assert [len(each) for each in server.requests] == [1, 1]


async def test_a_repeatable_request_is_sent_again_where_the_kept_connection_was_closed() -> None:
    with anyio.fail_after(5):
        async with serving(WHOLE, requests_each=1) as (server, url), open_pool() as pool:
            for _ in range(3):
                assert await asked(pool, "GET", url) == (200, b"well")
    assert len(server.requests) == 3


async def test_a_cancelled_request_hangs_up() -> None:
    with anyio.fail_after(5):
        async with serving(b"") as (server, url), open_pool() as pool:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: asked(pool, "POST", url, b"abc"))
                await server.asked.wait()
                tasks.cancel_scope.cancel()
            await server.left.wait()


async def test_a_header_cannot_smuggle_another() -> None:
    async with serving(WHOLE) as (server, url), open_pool() as pool:
        with pytest.raises(ValueError, match="line break"):
            await asked(pool, "GET", url, Mcp_Name="x\r\nHost: evil")
    assert server.requests == []


async def test_a_unix_socket_serves_as_well(tmp_path: Path) -> None:
    server, path = Server(WHOLE, 1), str(tmp_path / "s")
    async with await asyncio.start_unix_server(server.handle, path), open_pool(path) as pool:
        found = await asked(pool, "GET", URL("http://control/health"))
    assert found == (200, b"well")


async def test_where_nothing_listens_there_is_no_connection(tmp_path: Path) -> None:
    async with open_pool(str(tmp_path / "nobody")) as pool:
        with pytest.raises(NotConnected, match="No such file"):
            await asked(pool, "GET", URL("http://control/"))
    async with serving(WHOLE) as (_, url):
        pass
    async with open_pool() as pool:
        with pytest.raises(NotConnected, match=r"nothing listens at 127\.0\.0\.1:\d+ \(connection refused\)"):
            await asked(pool, "GET", url)


async def test_a_closed_pool_closes_its_connections() -> None:
    async with serving(WHOLE) as (server, url):
        async with open_pool() as pool:
            await asked(pool, "GET", url)
        with anyio.fail_after(5):
            await server.left.wait()


@pytest.mark.parametrize(
    "answer",
    [
        packed(gzip.compress(b"well")),
        packed(gzip.compress(b"we") + gzip.compress(b"ll")),
        packed(zlib.compress(b"well"), "deflate"),
        packed(bare(b"well"), "Deflate"),
        packed(b"well", "identity"),
    ],
    ids=["gzip", "gzip in parts", "deflate", "bare deflate", "identity"],
)
async def test_a_compressed_answer_is_unpacked(answer: bytes) -> None:
    assert await ask(answer) == (200, b"well")


async def test_a_small_answer_that_unpacks_to_a_large_one_is_refused() -> None:
    with pytest.raises(AnswerTooLarge, match="larger than 1,000 bytes"):
        await ask(packed(gzip.compress(b" " * 2**20)))


async def test_an_answer_packed_in_parts_that_hold_nothing_is_refused() -> None:
    with pytest.raises(BrokenExchange, match="parts that hold nothing"):
        await ask(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"") * 10_000, requests_each=1)


async def test_endless_headers_behind_a_body_end_the_exchange() -> None:
    body = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nw\r\n0\r\n"
    with pytest.raises(BrokenExchange, match="headers are larger"):
        await ask(body + b"X-More: yes\r\n" * 100_000)


async def test_a_server_that_sends_faster_than_is_read_waits() -> None:
    sent, size = 0, 2**16

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x" * size)
            await writer.drain()
            sent += size
        writer.close()

    async with await asyncio.start_server(flood, "127.0.0.1", 0) as listening, open_pool() as pool:
        url = URL(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/")
        with anyio.fail_after(20):
            async with pool.open("GET", url) as response:
                before = -1
                while sent > before:  # until the server has filled what the kernel keeps for both
                    before = sent
                    await anyio.sleep(0.05)
                assert sent < 500 * size
                received = 0
                while piece := await response.piece():
                    received += len(piece)
    assert received == 1000 * size


async def test_leaving_an_answer_hangs_up() -> None:
    with anyio.fail_after(5):
        async with serving(b"HTTP/1.1 200 OK\r\n\r\nwe") as (server, url), open_pool() as pool:
            async with pool.open("GET", url) as response:
                assert (response.status, await response.piece()) == (200, b"we")
            await server.left.wait()


async def test_an_answer_that_takes_too_long_is_given_up() -> None:
    with anyio.fail_after(5):
        async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nwell") as (server, url), open_pool() as pool:
            with pytest.raises(AnswerTooSlow, match=r"no answer within 0\.1 s"):
                await pool.exchange("GET", url, most_bytes=MOST_BYTES, seconds=0.1)
            await server.left.wait()


async def test_requests_wait_in_order_for_one_of_the_connections() -> None:
    order: list[int] = []
    async with serving(WHOLE) as (server, url), open_pool(most_connections=2) as pool:

        async def one(number: int) -> None:
            await asked(pool, "GET", url)
            order.append(number)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                for number in range(20):
                    tasks.start_soon(one, number)
    assert (len(server.requests), order) == (2, [*range(20)])


async def test_who_waits_for_a_connection_waits_no_longer_than_for_an_answer() -> None:
    async with serving(b"") as (_, url), open_pool(most_connections=1) as pool, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: pool.exchange("GET", url, most_bytes=MOST_BYTES, seconds=60))
        await anyio.lowlevel.checkpoint()
        with anyio.fail_after(5), pytest.raises(AnswerTooSlow):
            await pool.exchange("GET", url, most_bytes=MOST_BYTES, seconds=0.1)
        tasks.cancel_scope.cancel()


async def test_an_idle_connection_is_closed_before_the_server_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "IDLE_SECONDS", 0.1)
    with anyio.fail_after(5):
        async with serving(WHOLE) as (server, url), open_pool() as pool:
            await asked(pool, "GET", url)
            await server.left.wait()


async def test_all_addresses_of_a_name_are_tried() -> None:
    async with serving(WHOLE) as (_, url), open_pool() as pool:  # at 127.0.0.1 alone
        assert await asked(pool, "GET", url.with_host("localhost")) == (200, b"well")


async def test_an_address_of_version_six_is_one() -> None:
    server = Server(WHOLE, 1)
    async with await asyncio.start_server(server.handle, "::1", 0) as listening, open_pool() as pool:
        port = listening.sockets[0].getsockname()[1]
        assert await asked(pool, "GET", URL(f"http://[::1]:{port}/")) == (200, b"well")
    assert b"Host: [::1]:%d\r\n" % port in server.requests[0][0]


async def test_a_certificate_that_nobody_vouches_for_is_refused_here(tmp_path: Path) -> None:
    (context, _), server = own_certificate(tmp_path), Server(WHOLE, 1)
    async with await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=context) as listening, open_pool() as pool:
        url = URL(f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}/")
        with pytest.raises(NotConnected, match="CERTIFICATE_VERIFY_FAILED") as caught:
            await asked(pool, "GET", url)
    assert caught.value.is_refused_here
    assert server.requests == []


async def test_a_certificate_that_is_trusted_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (context, trusted), server = own_certificate(tmp_path), Server(WHOLE, 3)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    async with await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=context) as listening, open_pool() as pool:
        url = URL(f"https://localhost:{listening.sockets[0].getsockname()[1]}/")
        for _ in range(3):
            assert await asked(pool, "GET", url) == (200, b"well")
    assert len(server.requests) == 1
