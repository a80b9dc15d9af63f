"""One run from plan to committed rollouts."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

from envhub.engine.changes import changed_settings, refuse_changes
from envhub.engine.control import LiveRun, RunFacts
from envhub.engine.item import Item
from envhub.engine.open_plan import OpenPlan, open_plan
from envhub.engine.plan import Plan, check_roles
from envhub.engine.play import Attempt
from envhub.engine.pool import LocalPool
from envhub.engine.stop import StopSignal
from envhub.errors import first_error
from envhub.models.credentials import Credentials
from envhub.rollout import Rollout
from envhub.store import RunWriter, open_run, open_writer


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

    def __init__(self, writer: RunWriter, live: LiveRun) -> None:
        self._writer, self._live = writer, live

    def attempts(self, rollout_id: str) -> int:
        """How many attempts at a sample were kept when the run was opened."""
        return self._writer.attempts(rollout_id)

    async def add(self, rollout: Rollout, media: Mapping[str, bytes]) -> None:
        """Keep a record."""
        self._live.ended(rollout)
        await self._writer.add(rollout, media)

    def track(self, attempt: Attempt) -> None:
        """Show that an attempt has moved on."""
        self._writer.set_live(attempt.item.rollout_id, attempt.where)
        self._live.moved(attempt)


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
    live = live or LiveRun(stop)
    try:
        async with open_plan(plan, credentials) as opened:
            planned, bad_rows = await opened.count()
            resolved = opened.resolved
            async with open_writer(
                directory, resolved=resolved, given=given, resume=resume, on_commit=observer.committed
            ) as writer:
                if writer.resumed:
                    refuse_changes(directory, changed_settings(writer.stored_resolved, resolved))
                    writer.set_resolved(resolved)
                    count_spent(directory, opened)
                    # A resumed run may hold samples that are not asked for now; what is there counts.
                    planned = writer.kept_count
                    async for _, item in opened.items(writer.run_id):
                        planned += not writer.is_kept(item.rollout_id)
                writer.set_plan(planned, bad_rows)
                observer.started(writer.run_id, planned, writer.done_count, bad_rows)
                pool = LocalPool(plan.request.concurrency, plan.request.retries, stop)
                live.begin(_facts(plan, opened, directory, writer.run_id, planned), pool)
                async with aclosing(_remaining(opened, writer)) as items:
                    await pool.collect(items, RunSink(writer, live))
                if stop.is_set:
                    writer.set_status("interrupted")
                if stop.reason is not None:
                    observer.stopped(stop.reason)
        live.end("interrupted" if stop.is_set else "finished")
    except BaseExceptionGroup as group:
        raise first_error(group) from group


def _facts(plan: Plan, opened: OpenPlan, directory: Path, run_id: str, planned: int) -> RunFacts:
    return RunFacts(
        run_id=run_id,
        directory=directory.absolute(),
        environments=tuple(planned.name for planned in plan.environments),
        agent=plan.agent_name,
        model=None if opened.model is None else opened.model.name,
        planned=planned,
    )


async def _remaining(opened: OpenPlan, writer: RunWriter) -> AsyncGenerator[Item]:
    """What is planned and not done, group by group."""
    async for environment, item in opened.items(writer.run_id):
        info = environment.host.info
        writer.add_tools(info.tools_digest, info.tools)
        if not writer.is_done(item.rollout_id):
            yield item


def count_spent(directory: Path, opened: OpenPlan) -> None:
    """A budget is the run's, however often it is resumed."""
    models = (opened.plan.model, *opened.plan.request.roles.values())
    if any(model is not None and model.budget is not None for model in models):
        with open_run(directory) as reader:
            opened.count_spent(reader.spent())
