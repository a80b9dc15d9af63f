"""HTTP connections to a model server: a pool for each model, error messages for failed connections, and bounded
answers.
"""

import errno
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

from rollouthub.models.address import is_loopback
from rollouthub.models.config import ModelConfig
from rollouthub.models.direct.sockets import most_connections, probed_socket
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.retry import TryFailed

logger = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 64 * 2**20
"""Most bytes of an answer: 64 MiB hold over a million tokens with ids and log-probabilities."""
CONNECT_SECONDS = 15.0
MAX_REFUSAL_BYTES = 64 * 2**10
LARGE_BODY = 2**20
"""Most bytes of a body sent as `bytes`; larger bodies are sent as a stream, because aiohttp warns of large `bytes`."""

# Shorter than the five seconds after which vLLM's server hangs up, so that a call rarely meets a dying connection.
_KEEP_ALIVE_SECONDS = 4.0


def connection_problem(error: Exception) -> str:
    """A message for a connection error, with the operating system's text where there is one."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host {error.host!r} has no address"
    if isinstance(error, aiohttp.ClientConnectorError):
        where = f"{error.host}:{error.port}"
        if error.os_error.errno == errno.ECONNREFUSED:
            return f"nothing listens at {where} (connection refused)"
        if "WRONG_VERSION_NUMBER" in str(error.os_error):
            return f"{where} does not speak TLS; try http:// instead of https://"
        return f"no connection to {where}: {error.os_error.strerror or error.os_error}"
    return f"the connection failed: {str(error) or type(error).__name__}"


async def read_answer(response: aiohttp.ClientResponse) -> bytes:
    """The response's body, with any transfer encoding or compression.

    Raises:
        TryFailed: the body is larger than `MAX_ANSWER_BYTES`.
    """
    length = response.content_length
    if length is not None and length <= MAX_ANSWER_BYTES and "Content-Encoding" not in response.headers:
        return await response.read()
    chunks: list[bytes] = []
    size = length or 0
    if size <= MAX_ANSWER_BYTES:
        size = 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > MAX_ANSWER_BYTES:
                break
            chunks.append(chunk)
        else:
            return b"".join(chunks)
    response.close()
    raise TryFailed(f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB", status=200, is_retryable=False)


async def list_models(
    session: aiohttp.ClientSession, base_url: str, timeout_seconds: float, redact: Callable[[str], str]
) -> tuple[int, bytes]:
    """Status and body of a server's list of models, the cheapest request of the API.

    Raises:
        TryFailed: there was no answer.
    """
    try:
        async with session.get(
            URL(base_url + "/models"), allow_redirects=False, timeout=aiohttp.ClientTimeout(total=timeout_seconds)
        ) as response:
            return response.status, await read_answer(response)
    except TimeoutError as error:
        raise TryFailed(f"no answer within {timeout_seconds:g} s") from error
    except (aiohttp.ClientError, OSError) as error:
        raise TryFailed(redact(connection_problem(error))) from error


@asynccontextmanager
async def open_session(config: ModelConfig, endpoint: Endpoint) -> AsyncGenerator[aiohttp.ClientSession]:
    """Open a connection pool to a model's server, with its key in the headers; closed with the context."""
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "rollouthub"}
    if endpoint.api_key is not None:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
        if endpoint.base_url.startswith("http:") and not is_loopback(endpoint.base_url):
            logger.warning("the key in %s is sent unencrypted to %s", endpoint.key_name, endpoint.base_url)
    limit = most_connections(config.max_connections)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=limit, ttl_dns_cache=300, keepalive_timeout=_KEEP_ALIVE_SECONDS, socket_factory=probed_socket
        ),
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=True,
    ) as session:
        yield session
