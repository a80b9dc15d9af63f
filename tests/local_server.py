"""An aiohttp application behind real HTTP on the loopback."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from aiohttp import web


@asynccontextmanager
async def serving(app: web.Application, *, notices_hang_ups: bool = False) -> AsyncGenerator[str]:
    """Serve an application on a free port; its address, without a final slash. `notices_hang_ups` cancels a handler
    whose client has left.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=notices_hang_ups)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()
