"""How late the event loop is: a task that asks to be woken, and measures when it was."""

import time

import anyio

from rollouthub.telemetry.metrics.counter_histogram import LAG_BOUNDS, empty

PERIOD_SECONDS = 0.1
"""Ten looks a second cost about 0.1 % of a core."""


class LoopLag:
    """Measures the loop it runs on."""

    def __init__(self) -> None:
        self.histogram = empty(LAG_BOUNDS)

    async def watch(self) -> None:
        """Measure until cancelled."""
        while True:
            due = time.perf_counter() + PERIOD_SECONDS
            await anyio.sleep(PERIOD_SECONDS)
            self.histogram.observe(max(0.0, time.perf_counter() - due))
