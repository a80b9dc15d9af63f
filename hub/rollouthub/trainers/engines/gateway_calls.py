"""Calls of a trainer's gateway: JSON over HTTP with a key, retried while the gateway is full, paused or restarting."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio

from rollouthub.errors import ConfigError, SupplyError, describe
from rollouthub.models.retry import Backoff, parse_retry_after, trimmed

_AGAIN = frozenset({408, 425, 429, 502, 503, 504})
_CALL_SECONDS = 150.0
"""Timeout of one HTTP call in seconds; longer than AReaL's gateway waits for its workers."""
_MOST_BYTES = 64 * 2**20


class GatewayError(SupplyError):
    """A gateway refused a call, or could not be reached in time."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class GatewayCalls:
    """Calls of one gateway. Made by `open_calls`."""

    def __init__(self, url: str, session: aiohttp.ClientSession, patience_seconds: float, backoff: Backoff) -> None:
        self.url = url.rstrip("/")
        """The gateway's URL."""
        self._session, self._patience, self._backoff = session, patience_seconds, backoff

    async def call(self, method: str, path: str, body: object = None, *, key: str | None, query: str = "") -> Any:
        """Make one call and return the JSON of the answer.

        While the gateway is full, paused or unreachable, the call is repeated until the patience is over.

        Raises:
            GatewayError: the gateway refused the call, or the patience is over.
        """
        deadline, failures = anyio.current_time() + self._patience, 0
        while True:
            failures += 1
            after: float | None = None
            try:
                status, after, answer = await self._try(method, path, body, key, query)
                if status < 400:
                    return answer
                said, again = f"HTTP {status}: {trimmed(str(answer))}", status in _AGAIN
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                status, said, again = None, f"{describe(error)}", True
            wait = self._backoff.wait_seconds(failures, after)
            if not again or anyio.current_time() + wait >= deadline:
                raise GatewayError(f"{method} {self.url}/{path} failed, tried {failures} times: {said}", status)
            await anyio.sleep(wait)

    async def _try(
        self, method: str, path: str, body: object, key: str | None, query: str
    ) -> tuple[int, float | None, Any]:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        url = f"{self.url}/{path}{'?' + query if query else ''}"
        timeout = aiohttp.ClientTimeout(total=_CALL_SECONDS)
        async with self._session.request(
            method, url, json=body, headers=headers, timeout=timeout, allow_redirects=False
        ) as response:
            raw = bytearray()
            async for piece in response.content.iter_any():
                raw += piece
                if len(raw) > _MOST_BYTES:
                    raise aiohttp.ClientPayloadError(f"the answer has more than {_MOST_BYTES} bytes")
            after = parse_retry_after(response.headers.get("Retry-After"))
            try:
                return response.status, after, json.loads(raw)
            except ValueError:
                return response.status, after, raw.decode(errors="replace")


@asynccontextmanager
async def open_calls(
    url: str, *, patience_seconds: float, backoff: Backoff | None = None
) -> AsyncGenerator[GatewayCalls]:
    """Open connections to the gateway at `url`.

    Raises:
        ConfigError: `url` is not an HTTP URL.
    """
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"the gateway {url!r} is no URL; write http://HOST:PORT")
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield GatewayCalls(url, session, patience_seconds, backoff or Backoff())
