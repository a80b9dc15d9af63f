"""A rollout worker for trainers without an event loop; the loop runs in a thread of anyio's."""

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from rollouthub.rollout import Rollout
from rollouthub.task import Public
from rollouthub.trainers.stream.open_worker import RolloutWorker, SampleRequest

Result = TypeVar("Result")


class BlockingWorker:
    """A worker whose methods wait in the caller's thread, whichever it is."""

    def __init__(self, portal: BlockingPortal, worker: RolloutWorker) -> None:
        self._portal, self._worker = portal, worker

    @property
    def directory(self) -> Path:
        """The run's."""
        return self._worker.directory

    @property
    def environments(self) -> tuple[str, ...]:
        """Their names."""
        return self._worker.environments

    @property
    def policy_version(self) -> int:
        """Of the weights that generate now."""
        return self._worker.policy_version

    @policy_version.setter
    def policy_version(self, version: int) -> None:
        self._portal.call(partial(setattr, self._worker, "policy_version", version))

    def pause(self) -> None:
        """Hold every model call from now on; those in flight go on."""
        self._portal.call(self._worker.pause)

    def resume(self) -> None:
        """Go on."""
        self._portal.call(self._worker.resume)

    def tasks(self, environment: str | None = None, split: str | None = None) -> list[Public]:
        """The public halves of an environment's tasks, see `RolloutWorker.tasks`."""

        async def listed() -> list[Public]:
            return [task async for task in self._worker.tasks(environment, split)]

        return self._portal.call(listed)

    def play(self, wanted: SampleRequest) -> Rollout:
        """Play one sample, see `RolloutWorker.play`."""
        return self._portal.call(self._worker.play, wanted)

    def play_all(self, wanted: Iterable[SampleRequest]) -> list[Rollout]:
        """Play several at once, see `RolloutWorker.play_all`."""
        return self._portal.call(self._worker.play_all, wanted)

    def begin(self, wanted: SampleRequest) -> Future[Rollout]:
        """Begin to play a sample, without waiting; its record is the future's result."""
        return self._portal.start_task_soon(self._worker.play, wanted)

    def call(self, function: Callable[[], Result]) -> Result:
        """Call something in the worker's event loop, and wait for it."""
        return self._portal.call(function)


@contextmanager
def blocking_worker(worker: AbstractAsyncContextManager[RolloutWorker]) -> Generator[BlockingWorker]:
    """Open a worker for a caller without an event loop: `with blocking_worker(rollout_worker(…)) as worker:`.

    Raises:
        UsageError: as `rollout_worker`.
    """
    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(worker) as opened:
        yield BlockingWorker(portal, opened)
