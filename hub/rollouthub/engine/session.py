"""Opens a run: its plan, store, limits and live control, together and in order.

The caller decides what is played: `hub run` the plan, a stream what a trainer takes, a service what agents ask for.
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
from rollouthub.errors import ConfigError, raise_first_error
from rollouthub.generation import Model
from rollouthub.models.batch_run import BatchRun
from rollouthub.models.credentials import Credentials
from rollouthub.plugins.components import component
from rollouthub.plugins.lock import FILE_NAME as LOCK
from rollouthub.plugins.lock import write_lock
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter, open_writer

TaskCount = Literal["planned", "checked", "unread"]
"""Whether a session reads every task before it starts: `planned` to know the number of rollouts, `checked` only to find
bad rows early, `unread` not at all.
"""


class PoolKind(Protocol):
    """A kind of pool other than `local`; found as the component `pool_NAME`, where NAME is `RunRequest.pool`."""

    async def check(self, request: RunRequest) -> None:
        """Check that this pool can be used, before anything is opened.

        Raises:
            UsageError: it cannot.
        """
        ...

    def pool(self, opened: OpenPlan, run_id: str, credentials: Credentials, stop: StopSignal) -> Pool:
        """Make a pool for this run."""
        ...


@dataclass
class Session:
    """An open run and its parts."""

    opened: OpenPlan
    directory: Path
    writer: RunWriter
    live: LiveRun
    stop: StopSignal
    bounds: RunBounds | None
    """The run's limits; None if it has none."""
    credentials: Credentials
    planned: int | None
    """Number of planned rollouts; None if unknown."""
    bad_rows: int
    on_commit: list[Callable[[Sequence[Rollout]], None]]
    """Functions called with records that have become durable."""
    ending: RunEnding = "finished"
    """How the run ended, for watchers; published once everything is closed."""

    def pool(self, opened: OpenPlan | None = None) -> Pool:
        """The pool that the plan asks for."""
        opened = opened or self.opened
        request = opened.plan.request
        if request.pool == "local":
            return LocalPool(request.concurrency, request.retries, self.stop)
        return _pool_kind(request).pool(opened, self.writer.run_id, self.credentials, self.stop)

    def begin(self, pool: Pool | None, opened: OpenPlan | None = None) -> None:
        """Record that the run plays, and let others watch it; until here a resumed run's directory is unchanged.

        `pool` is None if the caller decides what is played.
        """
        opened = opened or self.opened
        write_lock(opened.lock, self.directory / LOCK, 0o600)
        self.writer.set_plan(self.planned, self.bad_rows)
        models = dict(opened.roles) if opened.model is None else {"policy": opened.model, **opened.roles}
        for seat, player in opened.seats.items():
            if player.model is not None and player.model is not opened.model:
                models[f"seat {seat}"] = player.model
        hosts = tuple(environment.host for environment in opened.environments)
        self.live.parts = RunParts(models, hosts, self.writer, pool, opened.tracer)
        self.live.begin(_facts(opened, self.directory, self.writer.run_id, self.planned), pool)

    def bounded(self) -> AbstractAsyncContextManager[object]:
        """A context in which the run's limits apply."""
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
    scores_groups: bool = False,
    batches: BatchRun | None = None,
) -> AsyncGenerator[Session]:
    """Open a run: its environments and models, then its store; a resumed run must match its stored settings.

    Args:
        given: The request as its caller wrote it, for the record.
        model: The model object that the plan was made with, if any.
        tasks: Whether every task is read first.
        scores_groups: Whether the caller scores groups (`group_scoring`); if not, environments that score groups are
            refused.
        batches: Keeps what batched models ask; without it they are refused.

    Raises:
        UsageError: a bad row, an unreachable model, a run directory that cannot be used.
        StoreError: the store failed while the session was open; what it had committed stays.
    """
    check_roles(plan)
    if plan.request.pool != "local":
        await _pool_kind(plan.request).check(plan.request)
    stop = stop or StopSignal()
    live = live or LiveRun(stop)
    async with raise_first_error():
        async with open_plan(plan, credentials, model, batches) as opened:
            if not scores_groups:
                _refuse_groups(opened)
            counted, bad_rows = (0, 0) if tasks == "unread" else await opened.count()
            bounds = _bounds(plan, stop, live)
            listeners: list[Callable[[Sequence[Rollout]], None]] = [] if bounds is None else [bounds.committed]

            def committed(rollouts: Sequence[Rollout]) -> None:
                for listener in listeners:
                    listener(rollouts)

            async with open_writer(
                directory, resolved=opened.resolved, given=given, resume=resume, on_commit=committed
            ) as writer:
                planned, bad_rows = (counted, bad_rows) if tasks == "planned" else (None, 0)
                if writer.resumed:
                    accept_changes(directory, writer, opened)
                    if tasks == "planned":
                        planned = await count_planned(directory, writer, opened)
                    if bounds is not None:
                        bounds.used = used_so_far(directory, writer.waiting_members.values())
                session = Session(
                    opened, directory, writer, live, stop, bounds, credentials, planned, bad_rows, listeners
                )
                yield session
        live.end(session.ending)


def _pool_kind(request: RunRequest) -> PoolKind:
    kind: type[PoolKind] = component(f"pool_{request.pool}")
    return kind()


def _refuse_groups(opened: OpenPlan) -> None:
    for environment in opened.environments:
        if environment.host.info.scores_groups:
            raise ConfigError(
                f"environment {environment.host.info.name!r} scores all samples of a task together, which takes whole "
                "groups: play it with `hub run`, evaluate() or stream_rollouts()"
            )


def _bounds(plan: Plan, stop: StopSignal, live: LiveRun) -> RunBounds | None:
    """The run's limits; None if it has none."""
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
