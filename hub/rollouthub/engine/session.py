"""The one assembly of a run: its plan, store, limits and live control are opened here, together and in order.

What plays in it is the caller's: a run plays what is planned, a stream what a trainer takes, a service what agents ask.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from rollouthub.engine.open_plan import OpenPlan, open_plan
from rollouthub.engine.plan import Plan, check_roles
from rollouthub.engine.pool import LocalPool, Pool
from rollouthub.engine.resumption import accept_changes, count_planned, used_so_far
from rollouthub.engine.run_control import LiveRun, RunEnding, RunFacts, RunParts
from rollouthub.engine.run_limits import RunBounds
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import first_error
from rollouthub.models.credentials import Credentials
from rollouthub.plugins.components import component
from rollouthub.plugins.lock import FILE_NAME as LOCK
from rollouthub.plugins.lock import write_lock
from rollouthub.protocols import Model
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter, open_writer

TaskCount = Literal["planned", "checked", "unread"]
"""Whether a session reads every task before it begins: to know how many rollouts there are to be, only to meet bad rows
early, or not at all."""


class PoolKind(Protocol):
    """A kind of pool, by the name that `RunRequest.pool` has: the component `pool_NAME`."""

    async def check(self, request: RunRequest) -> None:
        """See that such a pool can be had, before anything is opened.

        Raises:
            UsageError: it cannot.
        """
        ...

    def pool(self, opened: OpenPlan, run_id: str, credentials: Credentials, stop: StopSignal) -> Pool:
        """A pool for this run."""
        ...


@dataclass
class Session:
    """A run whose parts are open."""

    opened: OpenPlan
    directory: Path
    writer: RunWriter
    live: LiveRun
    stop: StopSignal
    bounds: RunBounds | None
    """None where nothing limits the run."""
    credentials: Credentials
    planned: int | None
    """Rollouts that the run is to have; None where that is not known."""
    bad_rows: int
    on_commit: list[Callable[[Sequence[Rollout]], None]]
    """Called with records that have become durable."""
    ending: RunEnding = "finished"
    """How those who look in hear that it ended, once all is closed."""

    def pool(self, opened: OpenPlan | None = None) -> Pool:
        """Where the plan wants its episodes played."""
        opened = opened or self.opened
        request = opened.plan.request
        if request.pool == "local":
            return LocalPool(request.concurrency, request.retries, self.stop)
        return _pool_kind(request).pool(opened, self.writer.run_id, self.credentials, self.stop)

    def begin(self, pool: Pool | None, opened: OpenPlan | None = None) -> None:
        """Write down that the run plays, and let others look in; until here a resumed run is left as it was.

        `pool` is None where something else decides what is played.
        """
        opened = opened or self.opened
        write_lock(opened.lock, self.directory / LOCK)
        self.writer.set_plan(self.planned, self.bad_rows)
        models = dict(opened.roles) if opened.model is None else {"policy": opened.model, **opened.roles}
        hosts = tuple(environment.host for environment in opened.environments)
        self.live.parts = RunParts(models, hosts, self.writer, pool, opened.tracer)
        self.live.begin(_facts(opened, self.directory, self.writer.run_id, self.planned), pool)

    def bounded(self) -> AbstractAsyncContextManager[object]:
        """While this is open, the run is held to its limits."""
        return self.bounds.kept() if self.bounds is not None else nullcontext()


@asynccontextmanager
async def open_session(
    plan: Plan,
    directory: Path,
    *,
    given: str,
    resume: bool,
    credentials: Credentials,
    live: LiveRun | None = None,
    stop: StopSignal | None = None,
    model: Model | None = None,
    tasks: TaskCount = "unread",
) -> AsyncGenerator[Session]:
    """Open a run: its environments and models, then its store; a resumed one is held to what it was.

    Args:
        given: The request as its caller wrote it, for the record.
        model: The model that the plan was made with, where that is an object.
        tasks: Whether every task is read first.

    Raises:
        UsageError: a bad row, an unreachable model, a run directory that cannot be used.
        StoreError: the store failed while the session was open; what it had committed stays.
    """
    check_roles(plan)
    if plan.request.pool != "local":
        await _pool_kind(plan.request).check(plan.request)
    stop = stop or StopSignal()
    live = live or LiveRun(stop)
    try:
        async with open_plan(plan, credentials, model) as opened:
            counted, bad_rows = (0, 0) if tasks == "unread" else await opened.count()
            bounds = _bounds(plan, stop, live)
            listeners: list[Callable[[Sequence[Rollout]], None]] = [] if bounds is None else [bounds.committed]

            def committed(rollouts: Sequence[Rollout]) -> None:
                for listener in listeners:
                    listener(rollouts)

            async with open_writer(
                directory, resolved=opened.resolved, given=given, resume=resume, on_commit=committed
            ) as writer:
                planned = counted if tasks == "planned" else None
                if writer.resumed:
                    accept_changes(directory, writer, opened)
                    if tasks == "planned":
                        planned = await count_planned(directory, writer, opened)
                    if bounds is not None:
                        bounds.used = used_so_far(directory)
                bad_rows = bad_rows if tasks == "planned" else 0
                session = Session(
                    opened, directory, writer, live, stop, bounds, credentials, planned, bad_rows, listeners
                )
                yield session
        live.end(session.ending)
    except BaseExceptionGroup as group:
        raise first_error(group) from group


def _pool_kind(request: RunRequest) -> PoolKind:
    kind: type[PoolKind] = component(f"pool_{request.pool}")
    return kind()


def _bounds(plan: Plan, stop: StopSignal, live: LiveRun) -> RunBounds | None:
    """What holds the run to its limits; None where it has none."""
    limits = plan.request.run_limits
    if not limits.are_any:
        return None

    def cancel() -> None:
        for attempt in tuple(live.attempts.values()):
            attempt.cancel()

    return RunBounds(limits, stop, cancel)


def _facts(opened: OpenPlan, directory: Path, run_id: str, planned: int | None) -> RunFacts:
    plan = opened.plan
    return RunFacts(
        run_id=run_id,
        directory=directory.absolute(),
        environments=tuple(planned.name for planned in plan.environments),
        agent=plan.agent_name,
        model=None if opened.model is None else opened.model.name,
        planned=planned,
    )
