"""Runs the app, and restores the terminal however the app ends."""

import gc
import signal

import anyio

from rollouthub.errors import raise_first_error
from rollouthub_tui.app.app import WatchApp

_ENDING = 128
"""Added to a signal's number for the exit code of a program that it ended, as shells do."""
_SETTLED_SECONDS = (0.5, 2.0, 6.0)
"""Pauses before each `gc.freeze`; by then the first screens and their imports are loaded."""
_BETWEEN_COLLECTIONS = (5_000, 50)
"""Thresholds of Python's garbage collector. A frame makes thousands of objects, few of them in cycles: with Python's
defaults, 700 and 10, collections take a tenth of the time.
"""


def run_app(app: WatchApp) -> int:
    """Run the app until it ends; returns the exit code."""
    return anyio.run(_run, app, backend="asyncio")


async def _run(app: WatchApp) -> int:
    async with raise_first_error(), anyio.create_task_group() as tasks:
        tasks.start_soon(_leave_when_told, app)
        tasks.start_soon(_spare_the_collector)
        await app.run_async()
        tasks.cancel_scope.cancel()
    return app.return_code or 0


async def _leave_when_told(app: WatchApp) -> None:
    """Quit on SIGHUP and SIGTERM, so that a closed window or a `kill` leaves a usable terminal."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP, signal.SIGINT) as signals:
        async for number in signals:
            app.exit(return_code=0 if number == signal.SIGINT else _ENDING + number)


async def _spare_the_collector() -> None:
    """Collect garbage seldom, and not among long-lived objects: a full collection takes a tenth of a second."""
    gc.set_threshold(*_BETWEEN_COLLECTIONS)
    for seconds in _SETTLED_SECONDS:
        await anyio.sleep(seconds)
        gc.freeze()
