"""Chooses a run's number of workers: enough for its CPU work, and no more than have something to play."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import anyio

from rollouthub.engine.work_queue import WorkQueue

LOOK_SECONDS = 2.0
BUSY_SHARE = 0.75
"""Average load of a worker, in cores, above which another worker is started."""
IDLE_SHARE = 0.5
"""Average load in cores, spread over one worker less, below which a worker is removed."""


class Scaled(Protocol):
    """A pool whose number of workers can be read and changed."""

    @property
    def workers(self) -> int: ...
    def resize_workers(self, workers: int) -> None: ...
    def cpu_seconds(self) -> Sequence[float]:
        """CPU seconds of each worker that is up, since its start."""
        ...


class Scaling:
    """Adapts a pool's number of workers to the work there is."""

    def __init__(self, pool: Scaled, most: Callable[[], Awaitable[int]]) -> None:
        self._pool, self._most = pool, most

    async def run(self, feed: WorkQueue) -> None:
        """Adapt the number of workers every few seconds, until there is nothing more to play."""
        before = sum(self._pool.cpu_seconds())
        while not feed.is_over:
            with anyio.move_on_after(LOOK_SECONDS):
                await feed.until(lambda: feed.is_over)
            now = self._pool.cpu_seconds()
            busy = max(0.0, sum(now) - before) / LOOK_SECONDS
            before = sum(now)
            most = await self._most()
            wanted = next_size(self._pool.workers, len(now), busy, feed.schedule.waiting, most)
            if wanted != self._pool.workers and not feed.is_over and not feed.is_held:
                self._pool.resize_workers(wanted)


def next_size(workers: int, up: int, busy: float, waiting: int, most: int) -> int:
    """The number of workers to have next; `up` of them run and use `busy` cores, and `waiting` samples wait.

    It changes by one at a time unless the cluster has shrunk, and not while a wanted worker is still starting.
    """
    if up < workers:
        return workers
    if busy > BUSY_SHARE * workers and waiting and workers < most:
        return workers + 1
    if workers > 1 and busy < IDLE_SHARE * (workers - 1):
        return workers - 1
    return min(workers, max(1, most))
