"""Runs the app and restores the terminal however it ends."""

import gc
import signal

import anyio

from rollouthub.errors import first_error
from rollouthub_tui.app import WatchApp

_ENDING = 128
"""What a shell adds to the number of the signal that ended a program."""
_SETTLED_SECONDS = (0.5, 2.0, 6.0)
"""One after the other: by then the first screens are there, and all that they import."""
_BETWEEN_COLLECTIONS = (5_000, 50)
"""New objects, and of such collections. A frame makes thousands, few in cycles: with Python's own 700 and 10 a tenth of
the time goes there."""


def run_app(app: WatchApp) -> int:
    """Until it is left; the exit code."""
    return anyio.run(_run, app, backend="asyncio")


async def _run(app: WatchApp) -> int:
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_leave_when_told, app)
            tasks.start_soon(_spare_the_collector)
            await app.run_async()
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_error(group) from group
    return app.return_code or 0


async def _leave_when_told(app: WatchApp) -> None:
    """A closed window or a `kill` must not leave a terminal that shows nothing of what is typed."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP, signal.SIGINT) as signals:
        async for number in signals:
            app.exit(return_code=0 if number == signal.SIGINT else _ENDING + number)


async def _spare_the_collector() -> None:
    """Have garbage looked for seldom, and not in what is there to stay: going through it takes a tenth of a second."""
    gc.set_threshold(*_BETWEEN_COLLECTIONS)
    for seconds in _SETTLED_SECONDS:
        await anyio.sleep(seconds)
        gc.freeze()
