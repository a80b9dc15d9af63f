"""A vLLM server's routes for token ids, which render, sample and parse separately (`--enable-scale-out`)."""

import logging
from collections.abc import Callable
from typing import Any

import anyio
import msgspec
from yarl import URL

from rollouthub.errors import ConfigError, ModelError
from rollouthub.http.exchange import MAX_ANSWER_BYTES, HttpPool
from rollouthub.http.no_answer import NoAnswer
from rollouthub.models.direct.http_pool import MAX_REFUSAL_BYTES, failed_try, list_models
from rollouthub.models.direct.http_refusal import refusal
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.retry import Backoff, TryFailed
from rollouthub.tracing import HEADER as TRACE_HEADER
from rollouthub.tracing import TRACEPARENT

logger = logging.getLogger(__name__)

RENDER = "/v1/chat/completions/render"
GENERATE = "/inference/v1/generate"
DERENDER = "/v1/chat/completions/derender"
PROBE: list[dict[str, str]] = [{"role": "user", "content": "a"}]
"""A conversation for requests in which only the other fields matter."""
MOST_FEATURES_BYTES = 2**30
"""Most bytes of a rendered conversation with pictures: one of a megapixel takes some 17 MB in base64."""

_encode = msgspec.json.Encoder().encode


class RouteMissing(TryFailed):
    """The server does not have a route."""

    def __init__(self, route: str, status: int, said: str) -> None:
        super().__init__(
            f"the server does not offer {route} (HTTP {status}{said}): the tokens lane needs vLLM 0.32 or later, "
            "started with --enable-scale-out; restart it so, or take --lane direct",
            status=status,
            is_retryable=False,
        )


class VllmServer:
    """Calls the routes, with the retries of the direct lane."""

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        pool: HttpPool,
        *,
        max_tries: int = 4,
        backoff: Backoff | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        """`name` is the model's name, for messages; `pool` comes from `open_model_pool`."""
        self.name, self.endpoint = name, endpoint
        self._pool, self._max_tries, self._backoff, self._redact = pool, max_tries, backoff or Backoff(), redact
        self._root = endpoint.base_url.removesuffix("/v1")
        self._owner = f"{name} at {endpoint.base_url}"

    def __repr__(self) -> str:
        return f"VllmServer({self._owner!r})"

    async def call(
        self, route: str, body: dict[str, Any], *, session: str = "", most_bytes: int = MAX_ANSWER_BYTES
    ) -> tuple[bytes, int]:
        """The body of a route's answer, and how many tries failed before; the caller's deadline covers all tries.

        Raises:
            ContextLimitError: the conversation is too long.
            ModelError: the server failed in every try, or refused.
        """
        sent = _encode({"model": self.endpoint.served_name, **body})
        headers = {"X-Session-ID": session} if session else {}
        if (parent := TRACEPARENT.get()) is not None:
            headers[TRACE_HEADER] = parent
        failures = 0
        while True:
            try:
                return await self._try(route, sent, headers, most_bytes), failures
            except TryFailed as failed:
                failures += 1
                error = failed.as_error(self._owner, failures, self._redact)
                if not failed.is_retryable or failures >= self._max_tries:
                    raise error from failed.__cause__
                wait = self._backoff.wait_seconds(failures, failed.retry_after_seconds)
                if anyio.current_time() + wait >= anyio.current_effective_deadline():
                    raise error from failed.__cause__
            logger.debug("%s; trying again in %.2f s", error, wait)
            await anyio.sleep(wait)

    async def _try(self, route: str, body: bytes, headers: dict[str, str], most_bytes: int = MAX_ANSWER_BYTES) -> bytes:
        try:
            async with self._pool.open("POST", URL(self._root + route), body, headers) as response:
                if response.status == 200:
                    return await response.read(most_bytes)
                body, endpoint = await response.beginning(MAX_REFUSAL_BYTES), self.endpoint
                sent_key = endpoint.api_key is not None
                raise _missing(route, response.status, body) or refusal(
                    response.status, response.headers, body, endpoint.key_name, sent_key=sent_key
                )
        except NoAnswer as error:
            raise failed_try(error) from error

    def bad_answer(self, route: str, problem: object) -> ModelError:
        """The error for an answer in an unexpected format."""
        return ModelError(f"{self._owner}: {route} gave no answer that is understood: {problem}", status=200)

    async def listed_models(self, timeout_seconds: float) -> tuple[int, bytes]:
        """Status and body of the server's list of models.

        Raises:
            TryFailed: there was no answer.
        """
        return await list_models(self._pool, self.endpoint.base_url, timeout_seconds, self._redact)

    async def check_routes(self) -> None:
        """Check that the server has the routes.

        Raises:
            ConfigError: the server lacks them.
        """
        try:
            await self._try(RENDER, _encode({"model": self.endpoint.served_name, "messages": PROBE}), {})
        except RouteMissing as missing:
            raise ConfigError(f"{self._owner}: {missing}") from None
        except TryFailed as failed:
            logger.debug("%s: %s", self._owner, failed)  # a call will meet it too, and try again


def _missing(route: str, status: int, body: bytes) -> RouteMissing | None:
    """The error if an answer means that the route does not exist: vLLM has it behind a flag, and older versions not
    at all.
    """
    words = body[:300].decode(errors="replace")
    if status == 403 and "scale" in words.lower():
        return RouteMissing(route, status, ": they are switched off")
    if status in (404, 405) and "model" not in words.lower():
        return RouteMissing(route, status, "")
    return None
