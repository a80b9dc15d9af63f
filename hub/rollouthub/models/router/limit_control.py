"""Periodically adjusts the limits of servers, and measures the delay of the event loop."""

from collections.abc import Callable, Sequence

import anyio

from rollouthub.models.router.limiter import TICK_SECONDS
from rollouthub.models.router.router import Router


async def steer(routers: Sequence[Router], now: Callable[[], float]) -> None:
    """Adjust the limits of these routers, for ever.

    The delay of this loop equals the delay with which answers are noticed; it is passed on, so that it is not counted
    as the servers' latency.
    """
    due = now() + TICK_SECONDS
    while True:
        await anyio.sleep(due - now())
        lag = max(now() - due, 0.0)
        for router in routers:
            router.tick(lag)
        due = now() + TICK_SECONDS
