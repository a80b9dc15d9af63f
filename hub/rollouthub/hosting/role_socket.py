"""A role's model served on a unix socket, for a server that no network leads to."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from aiohttp import web

from rollouthub.http.listener import bind_unix
from rollouthub.models.mock.mock_server import ModelServer

_CLOSE_SECONDS = 5.0


@asynccontextmanager
async def listening_at(server: ModelServer, socket: Path) -> AsyncGenerator[None]:
    """Serve within the context, on a socket that only this user can connect to; its file is left to the caller.

    Browsers reach none.

    Raises:
        ConfigError: the socket cannot be made.
    """
    bound = bind_unix(str(socket))
    # Whoever hangs up wants no answer any more: behind it may be a model that costs money.
    application = server.application()
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
    try:
        await runner.setup()
        await web.SockSite(runner, bound).start()
        yield
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_SECONDS):
            await runner.cleanup()
        bound.close()
