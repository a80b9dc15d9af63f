"""A rollout worker for trainers that call a function and never signal a beginning or an end.

It opens at the first call and closes when the process exits. It plays in an event loop of its own, in a thread that
anyio starts, so that episodes block neither a synchronous trainer nor an event loop that feeds an engine.
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


class ThreadWorker(BlockingWorker):
    """A worker that stays open until `close`; any thread and any event loop may call it."""

    def __init__(self, worker: AbstractAsyncContextManager[RolloutWorker]) -> None:
        """Open the worker; blocks until it is open.

        Raises:
            UsageError: as `rollout_worker`.
        """
        self._samples_so_far: Counter[tuple[TaskReference, str]] = Counter()
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal("asyncio"))
            super().__init__(portal, stack.enter_context(portal.wrap_async_context_manager(worker)))
            self._stack = stack.pop_all()
        # Never freed: a fork that frees it on leaving would wait for its parent's thread to close what is open there.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._stack))

    def next_sample(self, task: TaskReference, group: str) -> int:
        """The next sample number for a task in a group: how often it was requested there before."""
        sample = self._samples_so_far[task, group]
        self._samples_so_far[task, group] += 1
        return sample

    async def played(self, wanted: SampleRequest) -> Rollout:
        """Play one sample, for a caller in any asyncio event loop.

        Raises:
            UsageError, SupplyError, StoreError: as `RolloutWorker.play`.
        """
        return await asyncio.wrap_future(self.begin(wanted))

    def close(self) -> None:
        """Close the worker; running episodes are cancelled."""
        self._stack.close()


class ThreadWorkers:
    """The workers of one process, by name."""

    def __init__(self) -> None:
        self._workers: dict[str, ThreadWorker] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    def get(self, name: str, make: Callable[[], AbstractAsyncContextManager[RolloutWorker]]) -> ThreadWorker:
        """The worker with that name; opened if necessary, which blocks.

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
                self._workers[name] = ThreadWorker(make())
            return self._workers[name]

    async def opened(self, name: str, make: Callable[[], AbstractAsyncContextManager[RolloutWorker]]) -> ThreadWorker:
        """As `get`, without blocking the caller's event loop."""
        return await anyio.to_thread.run_sync(self.get, name, make)

    def close(self) -> None:
        """Close all workers. Committed records are safe even if that fails, so a failure is only logged.

        In a forked process it does nothing: the inherited workers are the parent's to close.
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


THREAD_WORKERS = ThreadWorkers()
"""The workers of this process, shared by all adapters: trainers import adapters by name, and some load one file
twice.
"""
