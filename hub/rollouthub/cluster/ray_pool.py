"""The Ray pool: schedules a run in the driver, and has its episodes played by workers on a cluster."""

import logging
import math
import os
import time
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio

from rollouthub.cluster.allowances import Allowances
from rollouthub.cluster.cluster_head import watch_head
from rollouthub.cluster.open_cluster import open_cluster
from rollouthub.cluster.worker_count import Scaling
from rollouthub.cluster.worker_handles import (
    PATIENCE,
    PlaceStatus,
    Terms,
    WorkerHandle,
    WorkerRefusal,
    WorkerStarter,
    WorkerStatus,
    WorkerTimeouts,
)
from rollouthub.cluster.worker_loop import Shared, WorkerLoop
from rollouthub.cluster.worker_share import check_shares, most_sharing, worker_request
from rollouthub.engine.plan import Plan
from rollouthub.engine.pool import QueuedPool, Sink
from rollouthub.engine.sample import Sample
from rollouthub.engine.schedule import Schedule
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.engine.work_queue import WorkQueue
from rollouthub.errors import EpisodeError, HubError

if TYPE_CHECKING:
    from rollouthub.telemetry.metrics.process_figures import ProcessSnapshot

logger = logging.getLogger(__name__)

LOOKING_SECONDS = 15.0
"""Seconds for which workers add figures of their process to reports after `look` was called."""
MOST_FAILURES = 5
"""Workers in a row that fail to start, or are lost before playing, after which their place is given up."""


class RayPool(QueuedPool):
    """A pool whose episodes are coroutines in worker processes on a Ray cluster."""

    def __init__(
        self,
        plan: Plan,
        terms: Terms,
        stop: StopSignal,
        budgets: Mapping[str, float] = MappingProxyType({}),
        patience: WorkerTimeouts = PATIENCE,
    ) -> None:
        """`budgets`: US dollars left by role, for models that have a budget; the policy's role is the empty string."""
        request = plan.request
        self._plan, self._terms, self._stop, self._patience = plan, terms, stop, patience
        self._concurrency = request.concurrency
        self._workers = request.workers if isinstance(request.workers, int) else 0
        self._least = len(plan.environments) if request.ray.by_environment else 1
        self._most = most_sharing(plan)
        self._allowances = Allowances(budgets)
        self._loops: dict[int, WorkerLoop] = {}
        self._places: set[int] = set()
        self._tasks: Any = None
        self._looked_at = -math.inf
        self._has_played = False
        self.gone: list[WorkerStatus] = []
        """The last status of each worker that left or was lost."""
        self.lost_workers = 0
        """Number of workers lost so far, including those that never started."""

    @property
    def concurrency(self) -> int:
        """The most episodes played at a time, over all workers."""
        return self._concurrency

    @property
    def workers(self) -> int:
        """The number of workers wanted; 0 before it is known from the cluster."""
        return self._workers

    def resize(self, concurrency: int) -> None:
        """Set the most episodes played at a time."""
        self._concurrency = concurrency
        self._share_out()

    def resize_workers(self, workers: int) -> None:
        """Set the number of workers; surplus ones finish what they play.

        The number is kept between one worker for each environment (if each has its own workers) and the most among
        which the limits per minute can be divided.
        """
        if self._most is not None and workers > self._most:
            logger.warning("the limits of requests and tokens cannot be divided among more than %d workers", self._most)
            workers = self._most
        self._workers = max(self._least, workers)
        for loop in self._loops.values():
            if loop.place >= self._workers:
                loop.starting.cancel()
        self._share_out()
        if self._tasks is not None:
            self._start_workers()

    def hold(self, is_held: bool) -> None:
        """Pause or resume starting attempts; in a pause, workers return attempts that have not begun."""
        super().hold(is_held)
        for loop in self._loops.values():
            loop.hurry()

    def status(self) -> list[WorkerStatus]:
        """The status of every worker that is up."""
        return [loop.status() for loop in self._loops.values() if loop.member is not None]

    @property
    def workers_alive(self) -> int:
        """The number of workers that are up."""
        return sum(loop.member is not None for loop in self._loops.values())

    @property
    def staff(self) -> list[PlaceStatus]:
        """The status of every place on the cluster, also of those whose worker is not up yet."""
        loops = sorted(self._loops.values(), key=lambda loop: (loop.is_alone, loop.place))
        return [loop.standing(is_wanted=loop.is_alone or loop.place < self._workers) for loop in loops]

    def look(self) -> "tuple[list[PlaceStatus], list[ProcessSnapshot]]":
        """The status of every place, and the figures of the workers' processes from their last reports.

        For the next `LOOKING_SECONDS` the workers add these figures to their reports.
        """
        self._looked_at = time.monotonic()
        return self.staff, self.snapshots

    def _is_watched(self) -> bool:
        return self._plan.request.metrics is not None or time.monotonic() < self._looked_at + LOOKING_SECONDS

    @property
    def snapshots(self) -> "list[ProcessSnapshot]":
        """Figures of the workers' processes from their last reports; empty if no report has them."""
        from rollouthub.telemetry.metrics.process_figures import decode  # only where somebody wants to know

        return [decode(loop.figures) for loop in self._loops.values() if loop.figures]

    def cpu_seconds(self) -> list[float]:
        """CPU seconds of each worker that is up, since its start."""
        return [status.cpu_seconds for status in self.status()]

    async def play(self, items: AsyncIterator[Sample], sink: Sink) -> None:
        """Play the samples on the cluster's workers.

        Raises:
            UsageError: no cluster answers, no worker can play the plan, or a limit is too small to be divided.
        """
        options = self._plan.request.ray
        schedule = Schedule(sink.attempts, self._plan.request.retries, by_environment=options.by_environment)
        feed = self._feed = self._queue = WorkQueue(items, schedule, self._stop, sink.settled)
        feed.hold(self._is_held)
        self._shared = Shared(feed, sink, self._stop, self._allowances, self._is_watched)
        cpus = max(os.cpu_count() or 1, math.ceil(self._workers * options.cpus))
        async with open_cluster(options, cpus=cpus) as cluster:
            self._ray = cluster.ray
            self._starter = WorkerStarter(cluster, options, self._terms, self._patience)
            scaling = Scaling(self, self._starter.most_workers) if self._plan.request.workers == "auto" else None
            wanted = 1 if scaling else self._workers or await self._starter.most_workers()
            self._workers = max(self._least, wanted)
            check_shares(self._plan, self._workers)
            async with anyio.create_task_group() as watching:
                watching.start_soon(self._watch_head)
                await self._play_all(scaling)
                watching.cancel_scope.cancel()

    async def _play_all(self, scaling: Scaling | None) -> None:
        try:
            async with anyio.create_task_group() as self._tasks:
                self._start_workers()
                self._tasks.start_soon(self._man_alone)
                if scaling is not None:
                    self._tasks.start_soon(scaling.run, self._feed)
                await self._feed.until(lambda: self._feed.is_over)
                for loop in self._loops.values():
                    loop.starting.cancel()  # nobody needs another worker now
        finally:
            self._tasks = None

    async def _watch_head(self) -> None:
        """Stop the run in order if the cluster's head is gone, before Ray ends this process."""
        address = getattr(self._ray.get_runtime_context(), "gcs_address", None)
        if not address:
            return  # Ray's client, which only knows a proxy of the head
        wrong = await watch_head(address, self._patience.head_seconds)
        self._stop.set(
            f"the cluster's head at {address} is gone ({wrong}); --resume goes on, on this or another cluster"
        )
        await anyio.sleep(self._patience.last_seconds)
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()

    def _start_workers(self) -> None:
        for place in range(self._workers):
            if place not in self._places:
                self._places.add(place)
                self._tasks.start_soon(self._man, place)
        self._share_out()

    def _share_out(self) -> None:
        """Divide the concurrency among the workers that play, and the limits per minute among all that are not late."""
        there = [loop for loop in self._loops.values() if not loop.is_late]
        playing = [loop for loop in there if loop.place < self._workers and not loop.is_alone]
        for number, loop in enumerate(playing):
            share, rest = divmod(self._concurrency, len(playing))
            loop.concurrency = max(1, share + (number < rest))
        for loop in there:
            loop.workers = len(there)

    def _lane(self, place: int) -> str:
        """The only environment that a place plays; empty if it plays all."""
        environments = self._plan.environments
        return environments[place % len(environments)].name if self._plan.request.ray.by_environment else ""

    def _is_wanted(self, place: int) -> bool:
        return not self._feed.is_over and place < self._workers

    async def _man(self, place: int) -> None:
        """Start workers in a place, one after another, for as long as there is something to play."""
        failures, problem = 0, None
        try:
            while self._is_wanted(place) and failures < MOST_FAILURES:
                loop = self._loops[place] = WorkerLoop(place, self._shared, self._lane(place))
                self._share_out()
                problem = await self._play(loop)
                failures = 0 if problem is None or loop.has_played else failures + 1
                if isinstance(problem, WorkerRefusal) and not self._has_played:
                    failures = MOST_FAILURES  # it will not be another plan in a minute
                await self._pause(failures)
        finally:
            self._places.discard(place)
            self._loops.pop(place, None)
            self._share_out()
        if problem is not None and failures == MOST_FAILURES:
            logger.error("place %d on the cluster is given up: its last workers did not play", place)
            self._look_for_others(self._lane(place), problem)

    def _look_for_others(self, lane: str, problem: HubError) -> None:
        """After a place was given up, stop the run if no other place plays its environment.

        Raises:
            WorkerRefusal: every worker refuses the plan, and nothing was played.
        """
        if self._feed.is_over or any(self._lane(place) == lane and place < self._workers for place in self._places):
            return
        if isinstance(problem, WorkerRefusal) and not self._has_played:
            raise problem
        what = f"plays {lane}" if lane else "of the cluster plays"
        self._stop.set(f"no worker {what} any more: {problem}")

    async def _play(self, loop: WorkerLoop) -> HubError | None:
        """Start a worker and play with it; returns the error if the worker was lost or refused, else None."""
        try:
            member = await self._start(loop)
            if member is not None:
                await self._play_with(member, loop)
        except (EpisodeError, WorkerRefusal) as error:
            self.lost_workers += 1
            logger.warning("%s", error)
            await loop.lose(error)
            return error
        finally:
            self._has_played = self._has_played or loop.has_played
            if loop.member is not None:
                self.gone.append(loop.status())
        return None

    async def _start(self, loop: WorkerLoop) -> WorkerHandle | None:
        def late() -> None:
            loop.is_late = True
            self._share_out()

        with loop.starting:
            member = await self._starter.start(
                worker_request(self._plan, loop.lane), loop.name, late, is_extra=loop.is_alone
            )
            loop.is_late = False
            self._share_out()
            return member
        return None

    async def _play_with(self, member: WorkerHandle, loop: WorkerLoop) -> None:
        is_cut_short = True
        try:
            await loop.play(member, lambda: loop.is_alone or loop.place < self._workers)
            is_cut_short = False
        except EpisodeError:
            member.kill(self._ray)
            raise
        finally:
            if not member.is_killed:
                await member.dismiss(self._ray, in_a_hurry=is_cut_short)

    async def _pause(self, failures: int) -> None:
        """Wait before the next worker is started, longer after each failure in a row."""
        if 0 < failures < MOST_FAILURES:
            with anyio.move_on_after(min(self._patience.longest_pause_seconds, 0.5 * 2**failures)):
                await self._feed.until(lambda: self._feed.is_over)

    async def _man_alone(self) -> None:
        """Play suspect attempts one at a time: those that were in flight each time their worker died."""
        schedule, failures = self._feed.schedule, 0
        while True:
            await self._feed.until(lambda: self._feed.is_over or (schedule.has_alone and not self._feed.is_held))
            if self._feed.is_over:
                return
            loop = self._loops[-1] = WorkerLoop(-1, self._shared, is_alone=True)
            self._share_out()
            try:
                problem = await self._play(loop)
            finally:
                self._loops.pop(-1, None)
                self._share_out()
            failures = 0 if problem is None or loop.has_played else failures + 1
            if problem is not None and failures == MOST_FAILURES:
                await loop.set_aside(problem)
                failures = 0
            await self._pause(failures)
