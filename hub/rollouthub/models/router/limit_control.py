"""The beat by which limits follow their servers, and the measure of how late the event loop is."""

from collections.abc import Callable, Sequence

import anyio

from rollouthub.models.router.limiter import TICK_SECONDS
from rollouthub.models.router.router import Router


async def steer(routers: Sequence[Router], now: Callable[[], float]) -> None:
    """Adjust the limits of these routers, for ever.

    How late the beat comes is how late every answer is noticed: what a call waits for in this process is not its
    server's latency.
    """
    due = now() + TICK_SECONDS
    while True:
        await anyio.sleep(due - now())
        lag = max(now() - due, 0.0)
        for router in routers:
            router.tick(lag)
        due = now() + TICK_SECONDS
