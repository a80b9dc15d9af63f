"""HTTP connections to a model server: a pool for each model, and the failed try that a request without an answer is."""

import logging
import resource
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from rollouthub.http.exchange import HttpPool, open_pool
from rollouthub.http.no_answer import AnswerTooLarge, BrokenExchange, NoAnswer, NotConnected
from rollouthub.models.address import is_loopback
from rollouthub.models.config import ModelConfig
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.retry import TryFailed

logger = logging.getLogger(__name__)

MAX_REFUSAL_BYTES = 64 * 2**10
_SPARE_FILES = 128


def failed_try(error: NoAnswer) -> TryFailed:
    """The `TryFailed` of a request that got no answer."""
    if isinstance(error, NotConnected) and error.is_refused_here:
        return TryFailed(f"connection refused by us: {error}", is_retryable=False)
    if isinstance(error, AnswerTooLarge):
        return TryFailed(str(error), status=200, is_retryable=False)
    return TryFailed(f"the connection failed: {error}" if isinstance(error, BrokenExchange) else str(error))


async def list_models(
    pool: HttpPool, base_url: str, timeout_seconds: float, redact: Callable[[str], str]
) -> tuple[int, bytes]:
    """Status and body of a server's list of models, the cheapest request of the API.

    Raises:
        TryFailed: there was no answer.
    """
    try:
        listed = await pool.exchange("GET", base_url + "/models", seconds=timeout_seconds)
        return listed.status, listed.body
    except NoAnswer as error:
        raise TryFailed(redact(str(failed_try(error)))) from error


def most_connections(wanted: int) -> int:
    """How many sockets this process can have open, at most `wanted`."""
    # Sockets beyond the limit of open files would fail every call; waiting for one is only slower.
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files < 0 else min(wanted, max(files - _SPARE_FILES, files // 2))


@asynccontextmanager
async def open_model_pool(config: ModelConfig, endpoint: Endpoint) -> AsyncGenerator[HttpPool]:
    """Open a connection pool to a model's server, with its key in the headers; closed with the context."""
    headers = {"Content-Type": "application/json"}
    if endpoint.api_key is not None:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
        if endpoint.base_url.startswith("http:") and not is_loopback(endpoint.base_url):
            logger.warning("the key in %s is sent unencrypted to %s", endpoint.key_name, endpoint.base_url)
    async with open_pool(headers=headers, most_connections=most_connections(config.max_connections)) as pool:
        yield pool
