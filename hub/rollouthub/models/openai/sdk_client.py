"""OpenAI's client over one guarded connection pool: no setting of the environment changes what is sent or where to."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import openai

from rollouthub.http.dialler import CONNECT_SECONDS
from rollouthub.http.exchange import IDLE_SECONDS
from rollouthub.models.address import is_loopback
from rollouthub.models.bounded_body import OverlongBody, bound
from rollouthub.models.dialects import SESSION_HEADERS
from rollouthub.models.direct.http_pool import most_connections
from rollouthub.models.direct.http_refusal import refusal
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.retry import TryFailed
from rollouthub.tracing import HEADER as TRACE_HEADER

logger = logging.getLogger(__name__)

_SENT = frozenset({"accept", "connection", "content-length", "content-type", "host", "transfer-encoding"}) | {
    TRACE_HEADER,
    *(name.lower() for name in SESSION_HEADERS.values() if name),
}
"""The headers of a request that are sent as the package wrote them: it would take others from the environment."""
_CONTENT = "/content"
"""Ending of the address of a file's content, which is read in pieces and may be longer than an answer."""


class _GuardedTransport(httpx.AsyncBaseTransport):
    """Sends requests with the endpoint's key and the headers that the hub means, and bounds the answers."""

    def __init__(self, endpoint: Endpoint, most_connections: int) -> None:
        limits = httpx.Limits(max_connections=most_connections, keepalive_expiry=IDLE_SECONDS)
        self._inner = httpx.AsyncHTTPTransport(trust_env=False, limits=limits)
        self._api_key = endpoint.api_key

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        headers = [(name, value) for name, value in request.headers.items() if name.lower() in _SENT]
        headers += [("user-agent", "rollouthub"), ("accept-encoding", "identity")]
        if self._api_key is not None:
            headers.append(("authorization", f"Bearer {self._api_key}"))
        # A request of its own: the package reads marks from the headers of the one it made.
        sent = httpx.Request(
            request.method, request.url, headers=headers, stream=request.stream, extensions=request.extensions
        )
        response = await self._inner.handle_async_request(sent)
        bound(response, is_file=request.url.path.endswith(_CONTENT))
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def open_client(endpoint: Endpoint, max_connections: int) -> AsyncGenerator[openai.AsyncOpenAI]:
    """Open OpenAI's client for an endpoint; its connections are closed with the context.

    It does not try again, follow redirects or limit the time of a call: the hub does.
    """
    if endpoint.api_key is not None and endpoint.base_url.startswith("http:") and not is_loopback(endpoint.base_url):
        logger.warning("the key in %s is sent unencrypted to %s", endpoint.key_name, endpoint.base_url)
    timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
    transport = _GuardedTransport(endpoint, most_connections(max_connections))
    async with httpx.AsyncClient(
        transport=transport, trust_env=False, follow_redirects=False, timeout=timeout
    ) as http_client:
        yield openai.AsyncOpenAI(
            # The key is put in by the transport, so that the package's own logs and errors never hold it.
            api_key="sent-by-the-transport",
            admin_api_key="",
            organization="",
            project="",
            webhook_secret="",
            base_url=endpoint.base_url,
            timeout=timeout,
            max_retries=0,
            http_client=http_client,
        )


def failed_try(error: Exception, endpoint: Endpoint, left_seconds: float) -> TryFailed:
    """The `TryFailed` for an exception of the package or of its HTTP client."""
    if isinstance(error, openai.APIStatusError):
        response, sent_key = error.response, endpoint.api_key is not None
        headers = {name.lower(): value for name, value in response.headers.items()}
        return refusal(response.status_code, headers, response.content, endpoint.key_name, sent_key=sent_key)
    for link in (error, error.__cause__):
        if isinstance(link, OverlongBody):
            return TryFailed(str(link), status=200, is_retryable=False)
    if isinstance(error, openai.APITimeoutError | httpx.TimeoutException):
        return TryFailed(f"no answer within the {left_seconds:.3g} s the call had left")
    if isinstance(error, openai.APIConnectionError | httpx.RequestError | httpx.StreamError | OSError):
        cause = error.__cause__ or error
        return TryFailed(f"the connection failed: {str(cause) or type(cause).__name__}")
    return TryFailed(f"the answer is not one of the API ({type(error).__name__}: {error})", status=200)
