"""The Ray pool: the run's schedule here, its episodes wherever the cluster's workers are."""

import logging
import math
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio

from rollouthub.cluster.allowances import Allowances
from rollouthub.cluster.cluster_head import watch_head
from rollouthub.cluster.open_cluster import open_cluster
from rollouthub.cluster.worker_count import Scaling
from rollouthub.cluster.worker_handles import (
    PATIENCE,
    Crew,
    Member,
    PlaceStatus,
    Terms,
    WorkerRefusal,
    WorkerStatus,
    WorkerTimeouts,
)
from rollouthub.cluster.worker_loop import Shared, WorkerLoop
from rollouthub.cluster.worker_share import check_shares, most_sharing, worker_request
from rollouthub.engine.plan import Plan
from rollouthub.engine.pool import Sink
from rollouthub.engine.sample import Sample
from rollouthub.engine.schedule import Schedule
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.engine.work_queue import Retrying, WorkQueue
from rollouthub.errors import EpisodeError, HubError

if TYPE_CHECKING:
    from rollouthub.telemetry.metrics.process_figures import ProcessSnapshot

logger = logging.getLogger(__name__)

LOOKING_SECONDS = 15.0
"""How long workers tell of themselves after somebody wanted to know."""
MOST_FAILURES = 5
"""Workers in a row that do not come up, or go before they have played anything, before a place is given up."""


class RayPool:
    """Episodes as coroutines of workers on a cluster."""

    def __init__(
        self,
        plan: Plan,
        terms: Terms,
        stop: StopSignal,
        budgets: Mapping[str, float] = MappingProxyType({}),
        patience: WorkerTimeouts = PATIENCE,
    ) -> None:
        """`budgets`: US dollars left for each model that has one, by role; the policy's is empty."""
        request = plan.request
        self._plan, self._terms, self._stop, self._patience = plan, terms, stop, patience
        self._concurrency = request.concurrency
        self._workers = request.workers if isinstance(request.workers, int) else 0
        self._least = len(plan.environments) if request.ray.by_environment else 1
        self._most = most_sharing(plan)
        self._allowances = Allowances(budgets)
        self._posts: dict[int, WorkerLoop] = {}
        self._places: set[int] = set()
        self._tasks: Any = None
        self._looked_at = -math.inf
        self._has_played = self._is_held = False
        self._open: WorkQueue | None = None
        """What is played from, once it plays."""
        self.gone: list[WorkerStatus] = []
        """Workers that have left or were lost, as they last stood."""
        self.lost_workers = 0
        """Workers that were lost so far, those that never came up among them."""

    @property
    def concurrency(self) -> int:
        """Episodes played at a time, over all workers."""
        return self._concurrency

    @property
    def workers(self) -> int:
        """Workers wanted; 0 before the cluster is known."""
        return self._workers

    def resize(self, concurrency: int) -> None:
        """Play so many at a time from now on."""
        self._concurrency = concurrency
        self._share_out()

    def resize_workers(self, workers: int) -> None:
        """Play with so many workers from now on; those that are too many finish what they have.

        Every environment keeps one where each has its own, and the limits of a minute must go round.
        """
        if self._most is not None and workers > self._most:
            logger.warning("the limits of requests and tokens cannot be divided among more than %d workers", self._most)
            workers = self._most
        self._workers = max(self._least, workers)
        for post in self._posts.values():
            if post.place >= self._workers:
                post.starting.cancel()
        self._share_out()
        if self._tasks is not None:
            self._hire()

    @property
    def is_held(self) -> bool:
        """Whether it starts nothing new for now."""
        return self._is_held

    def hold(self, is_held: bool) -> None:
        """Start nothing new from now on, or go on; workers give back what they have not begun."""
        self._is_held = is_held
        if self._open is not None:
            self._open.hold(is_held)
        for post in self._posts.values():
            post.hurry()

    @property
    def undecided(self) -> Sequence[str]:
        """Samples that ended without a score and are not tried again by themselves: the latest, oldest first."""
        return () if self._open is None else self._open.schedule.undecided

    def retry(self, rollout_id: str) -> Retrying:
        """Play a sample again that ended without a result."""
        return "over" if self._open is None else self._open.retry(rollout_id)

    def status(self) -> list[WorkerStatus]:
        """Every worker that is up."""
        return [post.status() for post in self._posts.values() if post.member is not None]

    @property
    def workers_alive(self) -> int:
        """Workers that are up."""
        return sum(post.member is not None for post in self._posts.values())

    @property
    def staff(self) -> list[PlaceStatus]:
        """Every place on the cluster, those whose worker is not up yet among them."""
        posts = sorted(self._posts.values(), key=lambda post: (post.is_alone, post.place))
        return [post.standing(is_wanted=post.is_alone or post.place < self._workers) for post in posts]

    def look(self) -> "tuple[list[PlaceStatus], list[ProcessSnapshot]]":
        """Who plays where, and how the workers' processes stood when they last told.

        That they tell, for a while to come, with the reports they make anyway.
        """
        self._looked_at = time.monotonic()
        return self.staff, self.snapshots

    def _is_watched(self) -> bool:
        return self._plan.request.metrics is not None or time.monotonic() < self._looked_at + LOOKING_SECONDS

    @property
    def snapshots(self) -> "list[ProcessSnapshot]":
        """How the workers' processes stood when they last told; none where nobody wants to know."""
        from rollouthub.telemetry.metrics.process_figures import decode  # only where somebody wants to know

        return [decode(post.figures) for post in self._posts.values() if post.figures]

    def cpu_seconds(self) -> list[float]:
        """Of each worker that is up, since its start."""
        return [status.cpu_seconds for status in self.status()]

    async def collect(self, items: AsyncIterator[Sample], sink: Sink) -> None:
        """Play the items on the cluster's workers.

        Raises:
            UsageError: no cluster, no worker can play the plan, or a limit is too small to be divided.
        """
        options = self._plan.request.ray
        schedule = Schedule(sink.attempts, self._plan.request.retries, by_environment=options.by_environment)
        feed = self._feed = self._open = WorkQueue(items, schedule, self._stop)
        feed.hold(self._is_held)
        self._shared = Shared(feed, sink, self._stop, self._allowances, self._is_watched)
        cpus = max(os.cpu_count() or 1, math.ceil(self._workers * options.cpus))
        async with open_cluster(options, cpus=cpus) as self._ray:
            self._crew = Crew(self._ray, options, self._terms, self._patience)
            scaling = Scaling(self, self._crew.most_workers) if self._plan.request.workers == "auto" else None
            wanted = 1 if scaling else self._workers or await self._crew.most_workers()
            self._workers = max(self._least, wanted)
            check_shares(self._plan, self._workers)
            async with anyio.create_task_group() as watching:
                watching.start_soon(self._watch_head)
                await self._play_all(scaling)
                watching.cancel_scope.cancel()

    async def _play_all(self, scaling: Scaling | None) -> None:
        try:
            async with anyio.create_task_group() as self._tasks:
                self._hire()
                self._tasks.start_soon(self._man_alone)
                if scaling is not None:
                    self._tasks.start_soon(scaling.run, self._feed)
                await self._feed.until(lambda: self._feed.is_over)
                for post in self._posts.values():
                    post.starting.cancel()  # nobody needs another worker now
        finally:
            self._tasks = None

    async def _watch_head(self) -> None:
        """End the run in good order where the cluster is gone: Ray would end this whole process."""
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

    def _hire(self) -> None:
        for place in range(self._workers):
            if place not in self._places:
                self._places.add(place)
                self._tasks.start_soon(self._man, place)
        self._share_out()

    def _share_out(self) -> None:
        """Divide the concurrency, and the limits of a minute, among those who play."""
        there = [post for post in self._posts.values() if not post.is_late]
        playing = [post for post in there if post.place < self._workers and not post.is_alone]
        for number, post in enumerate(playing):
            share, rest = divmod(self._concurrency, len(playing))
            post.concurrency = max(1, share + (number < rest))
        for post in there:
            post.workers = len(there)

    def _lane(self, place: int) -> str:
        """The only environment that is played in a place; empty for all."""
        environments = self._plan.environments
        return environments[place % len(environments)].name if self._plan.request.ray.by_environment else ""

    def _is_wanted(self, place: int) -> bool:
        return not self._feed.is_over and place < self._workers

    async def _man(self, place: int) -> None:
        """Keep a worker in its place for as long as there is something to play."""
        failures, problem = 0, None
        try:
            while self._is_wanted(place) and failures < MOST_FAILURES:
                post = self._posts[place] = WorkerLoop(place, self._shared, self._lane(place))
                self._share_out()
                problem = await self._play(post)
                failures = 0 if problem is None or post.has_played else failures + 1
                if isinstance(problem, WorkerRefusal) and not self._has_played:
                    failures = MOST_FAILURES  # it will not be another plan in a minute
                await self._pause(failures)
        finally:
            self._places.discard(place)
            self._posts.pop(place, None)
            self._share_out()
        if problem is not None and failures == MOST_FAILURES:
            logger.error("place %d on the cluster is given up: its last workers did not play", place)
            self._look_for_others(self._lane(place), problem)

    def _look_for_others(self, lane: str, problem: HubError) -> None:
        """Whether anyone is left to play what a place that is given up was to play; else the run ends.

        Raises:
            WorkerRefusal: every worker refuses the plan, and nothing was played.
        """
        if self._feed.is_over or any(self._lane(place) == lane and place < self._workers for place in self._places):
            return
        if isinstance(problem, WorkerRefusal) and not self._has_played:
            raise problem
        what = f"plays {lane}" if lane else "of the cluster plays"
        self._stop.set(f"no worker {what} any more: {problem}")

    async def _play(self, post: WorkerLoop) -> HubError | None:
        """Start a worker and play with it; what became of it, where it was lost."""
        try:
            member = await self._start(post)
            if member is not None:
                await self._play_with(member, post)
        except (EpisodeError, WorkerRefusal) as error:
            self.lost_workers += 1
            logger.warning("%s", error)
            await post.lose(error)
            return error
        finally:
            self._has_played = self._has_played or post.has_played
            if post.member is not None:
                self.gone.append(post.status())
        return None

    async def _start(self, post: WorkerLoop) -> Member | None:
        def late() -> None:
            post.is_late = True
            self._share_out()

        with post.starting:
            member = await self._crew.start(
                worker_request(self._plan, post.lane), post.name, late, is_extra=post.is_alone
            )
            post.is_late = False
            self._share_out()
            return member
        return None

    async def _play_with(self, member: Member, post: WorkerLoop) -> None:
        is_cut_short = True
        try:
            await post.play(member, lambda: post.is_alone or post.place < self._workers)
            is_cut_short = False
        except EpisodeError:
            member.kill(self._ray)
            raise
        finally:
            if not member.is_killed:
                await member.dismiss(self._ray, in_a_hurry=is_cut_short)

    async def _pause(self, failures: int) -> None:
        """Before the next worker: longer, the more of them failed."""
        if 0 < failures < MOST_FAILURES:
            with anyio.move_on_after(min(self._patience.longest_pause_seconds, 0.5 * 2**failures)):
                await self._feed.until(lambda: self._feed.is_over)

    async def _man_alone(self) -> None:
        """Play one at a time what was in flight whenever its worker died."""
        schedule, failures = self._feed.schedule, 0
        while True:
            await self._feed.until(lambda: self._feed.is_over or (schedule.has_alone and not self._feed.is_held))
            if self._feed.is_over:
                return
            post = self._posts[-1] = WorkerLoop(-1, self._shared, is_alone=True)
            self._share_out()
            try:
                problem = await self._play(post)
            finally:
                self._posts.pop(-1, None)
                self._share_out()
            failures = 0 if problem is None or post.has_played else failures + 1
            if problem is not None and failures == MOST_FAILURES:
                await post.set_aside(problem)
                failures = 0
            await self._pause(failures)
