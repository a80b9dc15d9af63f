"""Ctrl-C for batch commands: the first signal finishes the items in flight, the second cancels them."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import anyio

from rollouthub.errors import raise_first_error

SECOND_SIGNAL = 2
PATIENCE_SECONDS = 5.0
INTERRUPTED = 130

Step = Callable[[], Coroutine[Any, Any, None]]


class Interruptible:
    """Runs work that signals can stop, and records whether it was interrupted."""

    def __init__(self, stop: Callable[[], None], note: Callable[[str], None]) -> None:
        self._stop, self._note = stop, note
        self._patience: asyncio.TimerHandle | None = None
        self.is_interrupted = False

    async def run(self, work: Step, beside: Step) -> None:
        """Run `work`, and `beside` concurrently until it ends; errors are raised as themselves, not in a group."""
        try:
            async with raise_first_error(), anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, tasks.cancel_scope)
                tasks.start_soon(beside)
                await work()
                tasks.cancel_scope.cancel()
        finally:
            if self._patience is not None:
                self._patience.cancel()

    async def _watch(self, everything: anyio.CancelScope) -> None:
        count = 0
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for received in signals:
                count += 1
                self.is_interrupted = True
                self._stop()
                if received == signal.SIGTERM or count >= SECOND_SIGNAL:
                    self._note("stopping now")
                    self._patience = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, os._exit, INTERRUPTED)
                    everything.cancel()
                else:
                    self._note("finishing what is in flight; Ctrl-C again stops at once")
