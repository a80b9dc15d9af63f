"""A rollout worker in a trainer's own event loop, for trainers that never signal when they are done."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from rollouthub.trainers.stream.open_worker import RolloutWorker


class KeptWorker:
    """A worker that opens at first use in the caller's event loop and is closed with it, so that it can use an engine
    of that loop.

    An event loop that ends (`asyncio.run`) cancels its tasks and waits for them, which closes the worker in order. If
    it is used later in another loop, a new worker is opened there.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[RolloutWorker]]) -> None:
        self._make = make
        self._holder: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[RolloutWorker] | None = None
        self._closing = asyncio.Event()

    async def get(self) -> RolloutWorker:
        """The worker; opened by the first call in this event loop.

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
        """Close the worker if it is open; running episodes are cancelled."""
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
