"""Sends arbitrary HTTP requests and scans every byte of the responses for secrets."""

import asyncio
import io
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
import anyio
from yarl import URL

from rollouthub_registry.check.thorough.leak_scan import Watch, Watched
from rollouthub_registry.check.thorough.raw_exchange import KEPT_BYTES, RawExchange, shortened

ANSWER_SECONDS = 30.0
"""Most seconds to wait for a response."""
MOST_BYTES = 64 * 2**20
_LARGE_BODY = 2**20
_REMEMBERED = 40


@dataclass(frozen=True)
class Sighting:
    """A secret that appeared in a response."""

    item: Watched
    exchange: RawExchange


class Wire:
    """Sends HTTP requests to the agents' side of a server."""

    def __init__(self, http: aiohttp.ClientSession, watch: Watch) -> None:
        self._http, self.watch = http, watch
        self.is_solved = False
        """Whether the attack is playing the solution now, so that the answer may appear."""
        self.requests = 0
        self.sightings: list[Sighting] = []
        self.latest: deque[RawExchange] = deque(maxlen=_REMEMBERED)
        self.first: list[RawExchange] = []

    async def send(
        self,
        where: str,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        http: aiohttp.ClientSession | None = None,
        is_privileged: bool = False,
        seconds: float = ANSWER_SECONDS,
    ) -> RawExchange:
        """Send one request and read the response to its end; with `is_privileged`, as the hub, whose responses may
        hold secrets.
        """
        sent = _told(method, url, headers or {}, body)
        status, known, answer, problem, is_timed_out = None, dict[str, str](), b"", None, False
        data = body if body is None or len(body) < _LARGE_BODY else io.BytesIO(body)
        try:
            async with asyncio.timeout(seconds):
                async with (http or self._http).request(
                    method, URL(url, encoded=True), data=data, headers=headers, allow_redirects=False
                ) as response:
                    status = response.status
                    known = {name.lower(): value for name, value in response.headers.items()}
                    answer = await _bounded(response)
        except TimeoutError:
            problem, is_timed_out = f"no answer within {seconds:g} s", True
        except (aiohttp.ClientError, OSError, ValueError) as error:
            problem = f"the connection was closed ({type(error).__name__})"
        exchange = RawExchange(where, sent, status, known, answer[:KEPT_BYTES], problem, is_timed_out)
        if not is_privileged:
            self._look(exchange, answer, sent.encode() + (body or b""))
        return exchange

    async def raw(self, where: str, base: str, payload: bytes, *, seconds: float = 5.0) -> RawExchange:
        """Send bytes that may not be valid HTTP, on a connection of their own."""
        parts = URL(base)
        answer, problem = b"", None
        try:
            with anyio.fail_after(seconds):
                async with await anyio.connect_tcp(parts.host or "", parts.port or 80) as stream:
                    await stream.send(payload)
                    while len(answer) < KEPT_BYTES:
                        answer += await stream.receive()
        except TimeoutError:
            problem = f"the connection was held open for {seconds:g} s"
        except (anyio.EndOfStream, anyio.BrokenResourceError, OSError):
            pass
        head, _, body = answer.partition(b"\r\n\r\n")
        status = head[9:12]
        exchange = RawExchange(
            where,
            shortened(payload[:4000].decode(errors="replace")),
            int(status) if head.startswith(b"HTTP/1.") and status.isdigit() else None,
            {},
            body,
            problem or ("the connection was closed" if not answer else None),
        )
        self._look(exchange, answer, payload)
        return exchange

    def _look(self, exchange: RawExchange, answer: bytes, sent: bytes) -> None:
        self.requests += 1
        self.latest.append(exchange)
        if len(self.first) < 2:
            self.first.append(exchange)
        whole = answer + "".join(f"\n{name}: {value}" for name, value in exchange.headers.items()).encode()
        for item in self.watch.seen_in(whole, sent, is_solved=self.is_solved):
            self.sightings.append(Sighting(item, exchange))


def _told(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> str:
    shown = "".join(f"{name}: {value}\n" for name, value in headers.items())
    said = "" if body is None else body[:6000].decode(errors="replace")
    more = "" if body is None or len(body) <= 6000 else f" ({len(body):,} bytes)"
    return shortened(f"{method} {url}\n{shown}\n{said}") + more


async def _bounded(response: aiohttp.ClientResponse) -> bytes:
    chunks, size = list[bytes](), 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > MOST_BYTES:
            raise ValueError("the answer is endless")
    return b"".join(chunks)
