"""Measures the delay of the event loop, by a task that sleeps and compares the time of its wake-up."""

import time

import anyio

from rollouthub.telemetry.metrics.counter_histogram import LAG_BOUNDS, empty

PERIOD_SECONDS = 0.1
"""Seconds between measurements; ten a second cost about 0.1 % of a core."""


class LoopLag:
    """Measures the event loop in which `watch` runs."""

    def __init__(self) -> None:
        self.histogram = empty(LAG_BOUNDS)

    async def watch(self) -> None:
        """Measure the event loop's delay until cancelled."""
        while True:
            due = time.perf_counter() + PERIOD_SECONDS
            await anyio.sleep(PERIOD_SECONDS)
            self.histogram.observe(max(0.0, time.perf_counter() - due))
