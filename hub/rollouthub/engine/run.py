"""One run from plan to committed rollouts."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Protocol

from rollouthub.engine.in_flight import InFlight
from rollouthub.engine.open_plan import OpenPlan, open_plan
from rollouthub.engine.plan import Plan, check_roles
from rollouthub.engine.pool import LocalPool, Pool
from rollouthub.engine.repeated_refusals import Refusals
from rollouthub.engine.resumption import accept_changes, count_planned, is_complete, used_so_far
from rollouthub.engine.run_control import LiveRun, RunFacts, RunParts
from rollouthub.engine.run_limits import RunBounds
from rollouthub.engine.sample import Item
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import first_error
from rollouthub.models.credentials import Credentials
from rollouthub.plugins.lock import FILE_NAME as LOCK
from rollouthub.plugins.lock import write_lock
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter, open_writer


class Observer(Protocol):
    """Who watches a run from inside its process."""

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """The run is about to play; `done` of the planned rollouts are already there."""
        ...

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """These records are durable."""
        ...

    def stopped(self, reason: str) -> None:
        """The run ends before everything planned was played."""
        ...


class RunSink:
    """Hands records to the run's writer, and shows live states."""

    def __init__(
        self, writer: RunWriter, live: LiveRun, bounds: RunBounds | None = None, refusals: Refusals | None = None
    ) -> None:
        self._writer, self._live, self._bounds, self._refusals = writer, live, bounds, refusals

    def attempts(self, rollout_id: str) -> int:
        """How many attempts at a sample were kept when the run was opened."""
        return self._writer.attempts(rollout_id)

    async def add(self, rollout: Rollout, media: Mapping[str, bytes]) -> None:
        """Keep a record."""
        self._live.ended(rollout)
        if self._bounds is not None:
            self._bounds.came_in(rollout)
        if self._refusals is not None:
            self._refusals.came_in(rollout)
        await self._writer.add(rollout, media)

    def track(self, attempt: InFlight) -> None:
        """Show that an attempt has moved on."""
        self._writer.set_live(attempt.item.rollout_id, attempt.where)
        self._live.moved(attempt)

    def forget(self, attempt: InFlight) -> None:
        """Show no more an attempt that was handed to a player and not begun."""
        self._live.forget(attempt)


async def collect(
    plan: Plan,
    directory: Path,
    *,
    given: str,
    resume: bool,
    credentials: Credentials,
    observer: Observer,
    stop: StopSignal,
    live: LiveRun | None = None,
) -> None:
    """Play what is planned and not yet done; every finished rollout is committed, whatever happens next.

    Through `live` others can look in, and change what is in flight.

    Raises:
        UsageError: a bad row, an unreachable model, a run directory that cannot be used.
        StoreError: the store failed in mid-run; what it had committed stays.
    """
    check_roles(plan)
    if plan.request.pool == "ray":
        from rollouthub.cluster.open_cluster import check_cluster

        await check_cluster(plan.request.ray)
    live = live or LiveRun(stop)
    try:
        async with open_plan(plan, credentials) as opened:
            planned, bad_rows = await opened.count()
            bounds = run_bounds(plan, stop, live)

            def committed(rollouts: Sequence[Rollout]) -> None:
                if bounds is not None:
                    bounds.committed(rollouts)
                observer.committed(rollouts)

            async with open_writer(
                directory, resolved=opened.resolved, given=given, resume=resume, on_commit=committed
            ) as writer:
                if writer.resumed:
                    accept_changes(directory, writer, opened)
                    planned = await count_planned(directory, writer, opened)
                    if bounds is not None:
                        bounds.used = used_so_far(directory)
                write_lock(opened.lock, directory / LOCK)
                writer.set_plan(planned, bad_rows)
                observer.started(writer.run_id, planned, writer.done_count, bad_rows)
                pool = pool_of(opened, writer.run_id, credentials, stop)
                live.parts = run_parts(opened, writer, pool)
                live.begin(facts_of(opened, directory, writer.run_id, planned), pool)
                async with bounds.kept() if bounds else nullcontext(), aclosing(_remaining(opened, writer)) as items:
                    await pool.collect(items, RunSink(writer, live, bounds, Refusals(stop)))
                await _say_how_it_ended(directory, writer, stop, planned, observer)
        live.end("interrupted" if stop.is_set else "finished")
    except BaseExceptionGroup as group:
        raise first_error(group) from group


def pool_of(opened: OpenPlan, run_id: str, credentials: Credentials, stop: StopSignal) -> Pool:
    """Where the plan wants its episodes played."""
    plan = opened.plan
    if plan.request.pool == "local":
        return LocalPool(plan.request.concurrency, plan.request.retries, stop)
    from rollouthub.cluster.ray_pool import RayPool
    from rollouthub.cluster.worker_handles import Terms  # Ray, and only where it is asked for

    digests = {cast.environment.name: cast.environment.identity for _, cast in opened.casts(run_id)}
    return RayPool(plan, Terms(run_id, credentials.asked_for(), digests), stop, opened.budgets_left())


def run_bounds(plan: Plan, stop: StopSignal, live: LiveRun) -> RunBounds | None:
    """What holds the run to its limits; None where it has none."""
    limits = plan.request.run_limits
    if not limits.are_any:
        return None

    def cancel() -> None:
        for attempt in tuple(live.attempts.values()):
            attempt.cancel()

    return RunBounds(limits, stop, cancel)


async def _say_how_it_ended(
    directory: Path, writer: RunWriter, stop: StopSignal, planned: int, observer: Observer
) -> None:
    if not stop.is_set:
        return
    if stop.reason is not None:
        await writer.flush()
        if is_complete(directory, planned):
            return  # what was in flight was all there was left
        writer.set_stopped(stop.reason)
        observer.stopped(stop.reason)
    writer.set_status("interrupted")


def run_parts(opened: OpenPlan, writer: RunWriter, pool: Pool | None) -> RunParts:
    """What a run is made of in this process."""
    models = dict(opened.roles) if opened.model is None else {"policy": opened.model, **opened.roles}
    hosts = tuple(environment.host for environment in opened.environments)
    return RunParts(models, hosts, writer, pool, opened.tracer)


def facts_of(opened: OpenPlan, directory: Path, run_id: str, planned: int | None) -> RunFacts:
    """What does not change while the run plays."""
    plan = opened.plan
    return RunFacts(
        run_id=run_id,
        directory=directory.absolute(),
        environments=tuple(planned.name for planned in plan.environments),
        agent=plan.agent_name,
        model=None if opened.model is None else opened.model.name,
        planned=planned,
    )


async def _remaining(opened: OpenPlan, writer: RunWriter) -> AsyncGenerator[Item]:
    """What is planned and not done, group by group; in turns where each environment has workers of its own."""
    async with aclosing(opened.items(writer.run_id, in_turns=opened.plan.request.ray.by_environment)) as items:
        async for environment, item in items:
            info = environment.host.info
            writer.add_tools(info.tools_digest, info.tools)
            if not writer.is_done(item.rollout_id):
                yield item
