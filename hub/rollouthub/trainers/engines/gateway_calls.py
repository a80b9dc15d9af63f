"""Calls of a trainer's gateway: JSON over HTTP with a key, retried while the gateway is full, paused or restarting."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec

from rollouthub.errors import ConfigError, SupplyError
from rollouthub.http.exchange import HttpPool, open_pool
from rollouthub.http.no_answer import NoAnswer
from rollouthub.http.whole_answer import WholeAnswer
from rollouthub.models.retry import Backoff, parse_retry_after

_AGAIN = frozenset({408, 425, 429, 502, 503, 504})
_CALL_SECONDS = 150.0
"""Timeout of one HTTP call in seconds; longer than AReaL's gateway waits for its workers."""


class GatewayError(SupplyError):
    """A gateway refused a call, or could not be reached in time."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class GatewayCalls:
    """Calls of one gateway. Made by `open_calls`."""

    def __init__(self, url: str, pool: HttpPool, patience_seconds: float, backoff: Backoff) -> None:
        self.url = url.rstrip("/")
        """The gateway's URL."""
        self._pool, self._patience, self._backoff = pool, patience_seconds, backoff

    async def call(self, method: str, path: str, body: object = None, *, key: str | None, query: str = "") -> Any:
        """Make one call and return the JSON of the answer.

        While the gateway is full, paused or unreachable, the call is repeated until the patience is over.

        Raises:
            GatewayError: the gateway refused the call, or the patience is over.
        """
        headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
        url = f"{self.url}/{path}{'?' + query if query else ''}"
        sent = b"" if body is None else msgspec.json.encode(body)
        deadline, failures = anyio.current_time() + self._patience, 0
        while True:
            failures += 1
            after: float | None = None
            try:
                answer = await self._pool.exchange(method, url, sent, headers, seconds=_CALL_SECONDS)
                if answer.status < 400:
                    return _content(answer)
                after = parse_retry_after(answer.headers.get("retry-after"))
                status, said, again = answer.status, answer.words, answer.status in _AGAIN
            except NoAnswer as error:
                status, said, again = None, str(error), True
            wait = self._backoff.wait_seconds(failures, after)
            if not again or anyio.current_time() + wait >= deadline:
                raise GatewayError(f"{method} {self.url}/{path} failed, tried {failures} times: {said}", status)
            await anyio.sleep(wait)


def _content(answer: WholeAnswer) -> Any:
    """The JSON of an answer; the text of one that is no JSON."""
    try:
        return answer.json()
    except ValueError:
        return answer.body.decode(errors="replace")


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
    async with open_pool() as pool:
        yield GatewayCalls(url, pool, patience_seconds, backoff or Backoff())
