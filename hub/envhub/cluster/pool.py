"""The Ray pool: the run's schedule here, its episodes wherever the cluster's workers are."""

import logging
import math
import os
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio

from envhub.cluster.allowances import Allowances
from envhub.cluster.crew import Crew, Member, WorkerStatus
from envhub.cluster.post import Post, Shared
from envhub.cluster.scaling import Scaling
from envhub.cluster.share import worker_request
from envhub.cluster.start import open_cluster
from envhub.engine.feed import Feed
from envhub.engine.item import Item
from envhub.engine.plan import Plan
from envhub.engine.pool import Sink
from envhub.engine.schedule import Schedule
from envhub.engine.stop import StopSignal
from envhub.errors import EpisodeError

if TYPE_CHECKING:
    from envhub.monitor.figures import Snapshot

logger = logging.getLogger(__name__)

MOST_FAILURES = 5
"""Workers in a row that do not come up, or go before they have played anything, before a place is given up."""
LONGEST_PAUSE_SECONDS = 10.0
"""Between them."""


class RayPool:
    """Episodes as coroutines of workers on a cluster."""

    def __init__(
        self,
        plan: Plan,
        run_id: str,
        credentials: Mapping[str, str],
        stop: StopSignal,
        budgets: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """`budgets`: US dollars left for each model that has one, by role; the policy's is empty."""
        request = plan.request
        self._plan, self._run_id, self._credentials, self._stop = plan, run_id, dict(credentials), stop
        self._concurrency = request.concurrency
        self._workers = request.workers if isinstance(request.workers, int) else 0
        self._allowances = Allowances(budgets)
        self._posts: dict[int, Post] = {}
        self._places: set[int] = set()
        self._tasks: Any = None
        self._given_up = 0
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
        """Play with so many workers from now on; those that are too many finish what they have."""
        self._workers = workers
        self._share_out()
        if self._tasks is not None:
            self._hire()

    def status(self) -> list[WorkerStatus]:
        """Every worker that is up."""
        return [post.status() for post in self._posts.values() if post.member is not None]

    @property
    def workers_alive(self) -> int:
        """Workers that are up."""
        return sum(post.member is not None for post in self._posts.values())

    @property
    def snapshots(self) -> "list[Snapshot]":
        """How the workers' processes stood when they last told; none where nobody wants to know."""
        from envhub.monitor.figures import decode  # only where a run's metrics are exposed

        return [decode(post.figures) for post in self._posts.values() if post.figures]

    def cpu_seconds(self) -> list[float]:
        """Of each worker that is up, since its start."""
        return [status.cpu_seconds for status in self.status()]

    async def collect(self, items: AsyncIterator[Item], sink: Sink) -> None:
        """Play the items on the cluster's workers.

        Raises:
            UsageError: no cluster, or a worker refuses the plan.
        """
        options = self._plan.request.ray
        schedule = Schedule(sink.attempts, self._plan.request.retries, by_environment=options.by_environment)
        self._feed, self._sink = Feed(items, schedule, self._stop), sink
        cpus = max(os.cpu_count() or 1, math.ceil(self._workers * options.cpus))
        async with open_cluster(options, cpus=cpus) as self._ray:
            self._crew = Crew(self._ray, options, self._run_id, self._credentials)
            scaling = Scaling(self, self._crew.most_workers) if self._plan.request.workers == "auto" else None
            self._workers = 1 if scaling else self._workers or self._crew.most_workers()
            if options.by_environment:
                self._workers = max(self._workers, len(self._plan.environments))
            async with anyio.create_task_group() as self._tasks:
                self._hire()
                self._tasks.start_soon(self._man_alone)
                if scaling is not None:
                    self._tasks.start_soon(scaling.run, self._feed)
                await self._feed.until(lambda: self._feed.is_over)
                for post in self._posts.values():
                    post.starting.cancel()  # nobody needs another worker now
            self._tasks = None

    def _hire(self) -> None:
        for place in range(self._workers):
            if place not in self._places:
                self._places.add(place)
                self._tasks.start_soon(self._man, place)
        self._share_out()

    def _share_out(self) -> None:
        """Divide the concurrency among those who play."""
        playing = [post for post in self._posts.values() if post.place < self._workers and not post.is_alone]
        for number, post in enumerate(playing):
            share, rest = divmod(self._concurrency, len(playing))
            post.concurrency = max(1, share + (number < rest))
            post.workers = len(playing)

    def _shared(self) -> Shared:
        is_watched = self._plan.request.metrics is not None
        return Shared(self._feed, self._sink, self._stop, self._allowances, is_watched)

    async def _man(self, place: int) -> None:
        """Keep a worker in its place for as long as there is something to play."""
        environments = self._plan.environments
        lane = environments[place % len(environments)].name if self._plan.request.ray.by_environment else ""
        failures, shared = 0, self._shared()
        try:
            while not self._feed.is_over and place < self._workers and failures < MOST_FAILURES:
                post = self._posts[place] = Post(place, shared, lane)
                self._share_out()
                if await self._play(post):
                    return
                failures = 0 if post.has_played else failures + 1
                await self._feed_pause(failures)
            if failures == MOST_FAILURES:
                self._give_up()
        finally:
            self._places.discard(place)
            self._posts.pop(place, None)
            self._share_out()

    async def _play(self, post: Post) -> bool:
        """Start a worker and play with it; False where it was lost."""
        try:
            member = await self._start(post)
            if member is None:
                return True
            await post.play(member, lambda: post.place < self._workers or post.is_alone)
        except EpisodeError as error:
            self.lost_workers += 1
            logger.warning("%s", error)
            await post.lose(self._ray, error)
            return False
        finally:
            if post.member is not None:
                self.gone.append(post.status())
        await member.dismiss(self._ray)
        return True

    async def _start(self, post: Post) -> Member | None:
        name = f"worker {post.place}" if not post.is_alone else "the worker for suspects"
        request = worker_request(self._plan, max(1, self._workers), post.lane)
        with post.starting:
            return await self._crew.start(request, post.place, name, is_extra=post.is_alone)
        return None

    async def _feed_pause(self, failures: int) -> None:
        """Before the next worker: longer, the more of them failed."""
        if failures:
            with anyio.move_on_after(min(LONGEST_PAUSE_SECONDS, 0.5 * 2**failures)):
                await self._feed.until(lambda: self._feed.is_over)

    def _give_up(self) -> None:
        self._given_up += 1
        logger.error("a place on the cluster is given up: its last %d workers did not play", MOST_FAILURES)
        if len(self._places) == 1 and not self._stop.is_set:
            self._stop.set("no worker of the cluster plays any more; what is wrong stands in the run's log")

    async def _man_alone(self) -> None:
        """Play one at a time what was in flight whenever its worker died."""
        schedule = self._feed.schedule
        while True:
            await self._feed.until(lambda: self._feed.is_over or schedule.has_alone)
            if self._feed.is_over:
                return
            post = Post(-1, self._shared(), is_alone=True)
            self._posts[-1] = post
            try:
                if not await self._play(post) and not post.has_played:
                    await self._feed_pause(1)
            finally:
                self._posts.pop(-1, None)
