"""A rollout worker in a trainer's own event loop, for trainers that call us there and never say when they are done."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from rollouthub.trainers.stream.open_worker import RolloutWorker


class KeptWorker:
    """Opened at first use in the event loop of its user, and closed with it: an engine of that loop can be asked.

    A loop that ends (`asyncio.run`) cancels its tasks and waits for them, and the worker is closed in order. Used in
    another loop later, it is opened there anew.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[RolloutWorker]]) -> None:
        self._make = make
        self._holder: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[RolloutWorker] | None = None
        self._closing = asyncio.Event()

    async def get(self) -> RolloutWorker:
        """The worker.

        Raises:
            UsageError: as `rollout_worker`.
        """
        loop = asyncio.get_running_loop()
        holder, opened = self._holder, self._opened
        if opened is None or holder is None or holder.done() or opened.get_loop() is not loop:
            opened, self._closing = loop.create_future(), asyncio.Event()
            # A task without an owner: nobody above us lives as long as the trainer does, save its event loop.
            self._holder = loop.create_task(self._hold(opened, self._closing), name="rollouthub rollout worker")
            self._opened = opened
        return await asyncio.shield(opened)

    async def close(self) -> None:
        """Close it, if it is open; what is being played is given up."""
        holder, self._holder, self._opened = self._holder, None, None
        if holder is not None and not holder.done() and holder.get_loop() is asyncio.get_running_loop():
            self._closing.set()
            await holder

    async def _hold(self, opened: asyncio.Future[RolloutWorker], closing: asyncio.Event) -> None:
        try:
            async with self._make() as worker:
                opened.set_result(worker)
                await closing.wait()
        except BaseException as error:
            if opened.done():
                raise
            if not isinstance(error, Exception):
                opened.cancel()
                raise
            opened.set_exception(error)
            opened.exception()  # whoever waits gets it; where nobody does any more, it is no news
