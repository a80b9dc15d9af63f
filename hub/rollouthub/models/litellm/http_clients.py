"""litellm's HTTP clients: bounded in what they read, and closed when the last model of an event loop is closed, since
litellm never closes them.
"""

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cache, wraps
from typing import Any, cast

import anyio

from rollouthub.models.bounded_body import bound_client
from rollouthub.models.litellm.package import import_quietly

logger = logging.getLogger(__name__)

_CLOSE_SECONDS = 5.0
# How many models use the clients of an event loop: the last one closes them.
_users: Counter[int] = Counter()


@asynccontextmanager
async def keep_clients(litellm: Any) -> AsyncGenerator[None]:
    """Use litellm's clients of this event loop; the last user in the loop closes them."""
    loop = id(asyncio.get_running_loop())
    _users[loop] += 1
    try:
        yield
    finally:
        _users[loop] -= 1
        if not _users[loop]:
            del _users[loop]
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_SECONDS):
                await _close(litellm)


async def _close(litellm: Any) -> None:
    """Close the clients of this event loop, found by the mark that litellm's cache adds to the keys of each loop."""
    cache: Any = getattr(litellm, "in_memory_llm_clients_cache", None)
    clients: Any = getattr(cache, "cache_dict", None)
    mark: Any = getattr(cache, "update_cache_key_with_event_loop", None)
    if not isinstance(clients, dict) or mark is None:
        logger.debug("litellm keeps its clients elsewhere; they are left to the process's end")
        return
    clients, ending = cast(dict[str, Any], clients), cast(str, mark(""))
    for key in [key for key in clients if ending and key.endswith(ending)]:
        client = clients.pop(key)
        cast(dict[str, Any], getattr(cache, "ttl_dict", {})).pop(key, None)
        close = getattr(client, "close", None) or getattr(client, "aclose", None)
        if close is not None:
            try:
                closing = close()
                if asyncio.iscoroutine(closing):
                    await closing
            except Exception:  # a client that is closed already, or was never connected
                logger.debug("a client of litellm's did not close", exc_info=True)


@cache
def bound_clients() -> None:
    """Have litellm make no HTTP client but such as unpack and bound what they read."""
    makers = (
        ("litellm.llms.custom_httpx.http_handler", "AsyncHTTPHandler", "create_client"),
        ("litellm.llms.openai.common_utils", "BaseOpenAILLM", "_get_async_http_client"),
    )
    for module, kind, method in makers:
        owner = getattr(import_quietly(module), kind)
        setattr(owner, method, _bounding(inspect.getattr_static(owner, method)))


def _bounding(method: Any) -> Any:
    """A method of litellm's that makes a client, whose clients are bounded."""
    is_static = isinstance(method, staticmethod)
    make: Callable[..., Any] = method.__func__ if is_static else method  # pyright: ignore[reportUnknownMemberType]

    @wraps(make)
    def made(*arguments: Any, **named: Any) -> Any:
        client = make(*arguments, **named)
        if client is not None:
            bound_client(client)
        return client

    return staticmethod(made) if is_static else made
