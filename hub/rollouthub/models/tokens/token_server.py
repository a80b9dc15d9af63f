"""`TokenServer`: calls the routes of an inference server for token ids, with the retries of the direct lane."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import msgspec
from yarl import URL

from rollouthub.errors import ConfigError, ModelError, OverlongAnswer
from rollouthub.http.exchange import MAX_ANSWER_BYTES, HttpPool
from rollouthub.http.no_answer import NoAnswer
from rollouthub.models.dialects import SESSION_HEADERS
from rollouthub.models.direct.answer_bounds import TooLong
from rollouthub.models.direct.http_pool import MAX_REFUSAL_BYTES, failed_try, list_models
from rollouthub.models.direct.http_refusal import refusal
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.retry import Backoff, CallRetries, TryFailed
from rollouthub.tracing import HEADER as TRACE_HEADER
from rollouthub.tracing import TRACEPARENT

logger = logging.getLogger(__name__)

PROBE: list[dict[str, str]] = [{"role": "user", "content": "a"}]
"""A conversation for requests in which only the other fields matter."""

_encode = msgspec.json.Encoder().encode


class RouteMissing(TryFailed):
    """The server does not have a route."""

    def __init__(self, route: str, status: int, said: str, needs: str) -> None:
        """`needs` says which server has the route, and what to do."""
        super().__init__(
            f"the server does not offer {route} (HTTP {status}{said}): the tokens lane needs {needs}, "
            "or take --lane direct",
            status=status,
            is_retryable=False,
        )


class TokenServer(ABC):
    """One server of a model; a subclass knows its routes."""

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
        self.pool, self.root = pool, endpoint.base_url.removesuffix("/v1")
        self._redact = redact
        self.owner = f"{name} at {endpoint.base_url}"
        self._retries = CallRetries(self.owner, max_tries, backoff or Backoff(), redact)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.owner!r})"

    async def call(
        self, route: str, body: Mapping[str, Any], *, session: str = "", most_bytes: int = MAX_ANSWER_BYTES
    ) -> tuple[bytes, int]:
        """The body of a route's answer, and how many tries failed before; the caller's deadline covers all tries.

        Raises:
            ContextLimitError: the conversation is too long.
            ModelError: the server failed in every try, or refused.
        """
        sent = _encode({"model": self.endpoint.served_name, **body} if self.names_model(route) else body)
        headers = {SESSION_HEADERS[self.endpoint.dialect]: session} if session else {}
        if (parent := TRACEPARENT.get()) is not None:
            headers[TRACE_HEADER] = parent
        failures = 0
        while True:
            try:
                return await self.answer(route, sent, headers, most_bytes), failures
            except TryFailed as failed:
                failures += 1
                await self._retries.wait(failed, failures, anyio.current_effective_deadline())

    async def answer(
        self,
        route: str,
        body: bytes,
        headers: dict[str, str],
        most_bytes: int = MAX_ANSWER_BYTES,
        *,
        verb: str = "POST",
    ) -> bytes:
        """The body of a route's answer, in one try.

        Raises:
            TryFailed: there was no answer, or the server refused.
        """
        try:
            async with self.pool.open(verb, URL(self.root + route), body, headers) as response:
                if response.status == 200:
                    return await response.read(most_bytes)
                said, endpoint = await response.beginning(MAX_REFUSAL_BYTES), self.endpoint
                sent_key = endpoint.api_key is not None
                raise self.missing(route, response.status, said) or refusal(
                    response.status, response.headers, said, endpoint.key_name, sent_key=sent_key
                )
        except NoAnswer as error:
            raise failed_try(error) from error

    def names_model(self, route: str) -> bool:
        """Whether requests to a route have the model's name."""
        return True

    @abstractmethod
    def missing(self, route: str, status: int, body: bytes) -> RouteMissing | None:
        """The error if a refusal means that the server does not have the route."""

    def bad_answer(self, route: str, problem: object) -> ModelError:
        """The error for an answer in an unexpected format, or in which the model says more than the hub reads."""
        if isinstance(problem, TooLong):
            return OverlongAnswer(f"{self.owner}: {problem}")
        return ModelError(f"{self.owner}: {route} gave no answer that is understood: {problem}", status=200)

    async def listed_models(self, timeout_seconds: float) -> tuple[int, bytes]:
        """Status and body of the server's list of models.

        Raises:
            TryFailed: there was no answer.
        """
        return await list_models(self.pool, self.endpoint.base_url, timeout_seconds, self._redact)

    async def check_route(self, route: str) -> None:
        """Check that the server has a route, by rendering a short conversation there.

        Raises:
            ConfigError: the server lacks it.
        """
        try:
            await self.answer(route, _encode({"model": self.endpoint.served_name, "messages": PROBE}), {})
        except RouteMissing as missing:
            raise ConfigError(f"{self.owner}: {missing}") from None
        except TryFailed as failed:
            logger.debug("%s: %s", self.owner, failed)  # a call will meet it too, and try again
