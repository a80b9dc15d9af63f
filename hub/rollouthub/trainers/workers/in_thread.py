"""A rollout worker for trainers that call a function and never say when it begins or ends.

It is opened at the first call and closed when the process exits, and plays in an event loop of its own (in a thread of
anyio's), so that neither a trainer without a loop nor one whose loop feeds an engine is held up by episodes.
"""

import asyncio
import atexit
import ctypes
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, ExitStack

import anyio.to_thread
from anyio.from_thread import start_blocking_portal

from rollouthub.errors import HubError
from rollouthub.export import TaskReference
from rollouthub.rollout import Rollout
from rollouthub.trainers.stream import RolloutWorker, SampleRequest
from rollouthub.trainers.stream.blocking_worker import BlockingWorker

logger = logging.getLogger(__name__)


class ResidentWorker(BlockingWorker):
    """A worker that stays until it is closed; callable from any thread and any event loop."""

    def __init__(self, worker: AbstractAsyncContextManager[RolloutWorker]) -> None:
        """Open it; blocks until it is.

        Raises:
            UsageError: as `rollout_worker`.
        """
        self._visits: Counter[tuple[TaskReference, str]] = Counter()
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal("asyncio"))
            super().__init__(portal, stack.enter_context(portal.wrap_async_context_manager(worker)))
            self._stack = stack.pop_all()
        # Never freed: a fork that frees it on leaving would wait for its parent's thread to close what is open there.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._stack))

    def next_visit(self, task: TaskReference, group: str) -> int:
        """How often the task was asked for in this group before: each time is a sample of its own."""
        visit = self._visits[task, group]
        self._visits[task, group] += 1
        return visit

    async def played(self, wanted: SampleRequest) -> Rollout:
        """Play one sample, for a caller in any event loop of asyncio's.

        Raises:
            UsageError, SupplyError, StoreError: as `RolloutWorker.play`.
        """
        return await asyncio.wrap_future(self.begin(wanted))

    def close(self) -> None:
        """Close it; what is being played is given up."""
        self._stack.close()


class Residents:
    """The workers of this process, one by what it is for."""

    def __init__(self) -> None:
        self._workers: dict[str, ResidentWorker] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    def get(self, name: str, make: Callable[[], AbstractAsyncContextManager[RolloutWorker]]) -> ResidentWorker:
        """The worker of that name; opened if it is not, which blocks.

        Raises:
            UsageError: as `rollout_worker`.
        """
        if self._process != os.getpid():  # a fork has its parent's memory, and none of its threads
            self.__init__()
        if (known := self._workers.get(name)) is not None:
            return known
        with self._lock:
            if name not in self._workers:
                if not self._workers:
                    atexit.register(self.close)
                self._workers[name] = ResidentWorker(make())
            return self._workers[name]

    async def opened(self, name: str, make: Callable[[], AbstractAsyncContextManager[RolloutWorker]]) -> ResidentWorker:
        """The same, without blocking the caller's event loop."""
        return await anyio.to_thread.run_sync(self.get, name, make)

    def close(self) -> None:
        """Close them all. What is committed is safe without it, so that a failure on the way out is only told.

        A fork has its parent's workers in memory, which are the parent's to close.
        """
        if self._process != os.getpid():
            return
        with self._lock:
            while self._workers:
                name, worker = self._workers.popitem()
                try:
                    worker.close()
                except (HubError, RuntimeError, OSError) as error:
                    logger.warning("the rollout worker of %s was not closed in order: %s", name, error)
        atexit.unregister(self.close)


RESIDENTS = Residents()
"""Of this process: trainers import adapters by name, and some load one file twice."""
