"""Serving until a signal, or until the process that started the server has ended."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from rollouthub.errors import HubError
from rollouthub.event_loop import run_async

INTERRUPTED = 130

ReadyT = TypeVar("ReadyT")
Gone = Callable[[], Awaitable[None]]
Serving = Callable[[Callable[[ReadyT], None], Gone, Callable[[], None]], Awaitable[None]]
"""Serves: is told whom to tell when it is up, what to wait for before it leaves, and what to call where it cannot."""


def serve_to_the_end(serve: Serving[ReadyT], ready: Callable[[ReadyT], None], gone: Gone | None = None) -> int:
    """Serve; the exit code: 130 after Ctrl-C, 0 after SIGTERM or when `gone` returned.

    Raises:
        HubError: it cannot be served.
    """
    return run_async(_serve, serve, ready, gone)


async def _serve(serve: Serving[ReadyT], ready: Callable[[ReadyT], None], gone: Gone | None) -> int:
    ending = _Ending()
    failure: HubError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ending.heed_signals)
        if gone is not None:
            tasks.start_soon(ending.heed, gone)
        try:
            # Told to leave before it is up, it is cancelled; afterwards it closes its episodes first.
            with ending.starting:
                await serve(ending.once_up(ready), ending.wait, ending.leave_at_once)
        except HubError as error:
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return ending.code


class _Ending:
    """Why and when to leave."""

    def __init__(self) -> None:
        self.code = 0
        self.starting = anyio.CancelScope()
        self._is_up = False
        self._stopping = anyio.Event()

    def once_up(self, ready: Callable[[ReadyT], None]) -> Callable[[ReadyT], None]:
        """From here on the server leaves in order."""

        def up(said: ReadyT) -> None:
            self._is_up = True
            ready(said)

        return up

    async def wait(self) -> None:
        """Wait until asked to stop."""
        await self._stopping.wait()

    def tell(self) -> None:
        """Leave."""
        self._stopping.set()
        if not self._is_up:
            self.starting.cancel()

    async def heed(self, gone: Gone) -> None:
        """Leave when `gone` returns."""
        await gone()
        self.tell()

    async def heed_signals(self) -> None:
        """Leave at the first signal, at once at the second."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for received in signals:
                self.code = INTERRUPTED if received == signal.SIGINT else 0
                if self._stopping.is_set():
                    self.leave_at_once()
                self.tell()

    def leave_at_once(self) -> None:
        """End the process where something in it would not end by itself; servers it started go with it."""
        if servers := sys.modules.get("rollouthub.hosting.client.server_process"):  # loaded where one was started
            servers.kill_running()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self.code)
