"""A rollout worker for trainers without an event loop; its event loop runs in a thread that anyio starts."""

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
    """A `RolloutWorker` with blocking methods; any thread may call them."""

    def __init__(self, portal: BlockingPortal, worker: RolloutWorker) -> None:
        self._portal, self._worker = portal, worker

    @property
    def directory(self) -> Path:
        """The run's directory."""
        return self._worker.directory

    @property
    def environments(self) -> tuple[str, ...]:
        """The environments' names."""
        return self._worker.environments

    @property
    def policy_version(self) -> int:
        """The version of the weights that generate now."""
        return self._worker.policy_version

    @policy_version.setter
    def policy_version(self, version: int) -> None:
        self._portal.call(partial(setattr, self._worker, "policy_version", version))

    def pause(self) -> None:
        """Hold every further model call; calls in flight continue."""
        self._portal.call(self._worker.pause)

    def resume(self) -> None:
        """Let model calls through again."""
        self._portal.call(self._worker.resume)

    def tasks(self, environment: str | None = None, split: str | None = None) -> list[Public]:
        """The public parts of an environment's tasks, see `RolloutWorker.tasks`."""

        async def listed() -> list[Public]:
            return [task async for task in self._worker.tasks(environment, split)]

        return self._portal.call(listed)

    def play(self, wanted: SampleRequest) -> Rollout:
        """Play one sample, see `RolloutWorker.play`."""
        return self._portal.call(self._worker.play, wanted)

    def scores_groups(self, environment: str | None = None) -> bool:
        """Whether an environment scores all samples of a task together."""
        return self._worker.scores_groups(environment)

    def play_group(self, wanted: SampleRequest, size: int) -> list[Rollout]:
        """Play samples of a task as one group, see `RolloutWorker.play_group`."""
        return self._portal.call(self._worker.play_group, wanted, size)

    def play_all(self, wanted: Iterable[SampleRequest]) -> list[Rollout]:
        """Play several samples at once, see `RolloutWorker.play_all`."""
        return self._portal.call(self._worker.play_all, wanted)

    def begin(self, wanted: SampleRequest) -> Future[Rollout]:
        """Start playing a sample without waiting; the future's result is its rollout."""
        return self._portal.start_task_soon(self._worker.play, wanted)

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function in the worker's event loop, and wait for its result."""
        return self._portal.call(function)


@contextmanager
def blocking_worker(worker: AbstractAsyncContextManager[RolloutWorker]) -> Generator[BlockingWorker]:
    """Open a worker for a caller without an event loop: `with blocking_worker(rollout_worker(…)) as worker:`.

    Raises:
        UsageError: as `rollout_worker`.
    """
    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(worker) as opened:
        yield BlockingWorker(portal, opened)
