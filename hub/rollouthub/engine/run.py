"""One run, from plan to committed rollouts: the core of `hub run`."""

import logging
import shlex
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from rollouthub.engine.group_scoring import GroupScoring, group_scoring
from rollouthub.engine.in_flight import InFlight
from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.plan import Plan
from rollouthub.engine.repeated_refusals import Refusals
from rollouthub.engine.resumption import is_complete
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_limits import RunBounds
from rollouthub.engine.sample import Sample
from rollouthub.engine.session import open_session
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.models.batch_run import BATCHES, BatchRun
from rollouthub.models.credentials import Credentials
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter, open_run

logger = logging.getLogger(__name__)


class Observer(Protocol):
    """Gets the events of a run, inside its process."""

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """Called before the first episode; `done` of the planned rollouts are already stored."""
        ...

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Called when these records are durable."""
        ...

    def stopped(self, reason: str) -> None:
        """Called if the run ends before all planned rollouts were played."""
        ...


class RunSink:
    """Passes records and states of attempts to the run's writer, limits, group scoring and live view."""

    def __init__(
        self,
        writer: RunWriter,
        live: LiveRun,
        bounds: RunBounds | None = None,
        refusals: Refusals | None = None,
        groups: GroupScoring | None = None,
    ) -> None:
        """`groups` scores the groups of environments that score groups; None if no environment does."""
        self._writer, self._live, self._bounds, self._refusals = writer, live, bounds, refusals
        self._groups = groups

    def attempts(self, rollout_id: str) -> int:
        """Number of attempts at a sample that were stored when the run was opened."""
        return self._writer.attempts(rollout_id)

    async def add(self, rollout: Rollout, media: Mapping[str, bytes]) -> None:
        """Write a record to the store; with group scoring, also wait while too many verdicts are being computed."""
        if not rollout.awaits_group:  # else it is shown as being verified until then
            self._live.ended(rollout)
        if self._bounds is not None:
            self._bounds.came_in(rollout)
        if self._refusals is not None:
            self._refusals.came_in(rollout)
        await self._writer.add(rollout, media)
        if self._groups is not None:
            self._groups.ended(rollout)
            await self._groups.wait()

    def settled(self, sample: Sample) -> None:
        """Tell the group scoring that a sample gets no further attempt unless a person asks for one."""
        if self._groups is not None:
            self._groups.settled(sample)

    def track(self, attempt: InFlight) -> None:
        """Show the new state of an attempt."""
        self._writer.set_live(attempt.sample.rollout_id, attempt.where)
        self._live.moved(attempt)

    def forget(self, attempt: InFlight) -> None:
        """Remove an attempt that was handed to a player and never started."""
        self._live.forget(attempt)


async def play_run(
    plan: Plan,
    directory: Path,
    *,
    given: str,
    resume: bool,
    credentials: Credentials,
    observer: Observer,
    stop: StopSignal,
    live: LiveRun | None = None,
    note: Callable[[str], None] = logger.info,
) -> None:
    """Play what is planned and not yet done; each finished rollout is committed, even if the run fails later.

    Through `live` other code can watch and control the attempts in flight. `note` shows how batches are.

    Raises:
        UsageError: a bad row, an unreachable model, a run directory that cannot be used.
        StoreError: the store failed during the run; what it had committed stays.
    """
    batches = _batches(plan, directory, stop, note)
    async with open_session(
        plan,
        directory,
        given=given,
        resume=resume,
        credentials=credentials,
        live=live,
        stop=stop,
        tasks="planned",
        scores_groups=True,
        batches=batches,
    ) as session:
        writer, planned = session.writer, session.planned or 0
        session.on_commit.append(observer.committed)
        pool = session.pool()
        session.begin(pool)
        # Members that wait for their group's verdict are done when they have it.
        done = writer.done_count - len(writer.waiting_members)
        observer.started(writer.run_id, planned, done, session.bad_rows)
        batches.in_flight = lambda: pool.in_flight
        async with session.bounded(), anyio.create_task_group() as verdicts:
            stop.on_put_off(verdicts.cancel_scope.cancel)
            groups = group_scoring(session, verdicts)
            sink = RunSink(writer, session.live, session.bounds, Refusals(stop), groups)
            async with aclosing(_remaining(session.opened, writer, directory, groups)) as items:
                await pool.play(items, sink)
        await _say_how_it_ended(directory, writer, stop, planned, observer)
        session.ending = "interrupted" if stop.is_set else "finished"


def _batches(plan: Plan, directory: Path, stop: StopSignal, note: Callable[[str], None]) -> BatchRun:
    """What the run's batched models share; after the stop signal nothing but what is in flight is waited for."""
    resume = f"hub run --resume -o {shlex.quote(str(directory))}"
    batches = BatchRun(directory / BATCHES, note, stop.put_off, resume, plan.request.wait is not False)
    stop.on_set(batches.stop_waiting)
    return batches


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


async def _remaining(
    opened: OpenPlan, writer: RunWriter, directory: Path, groups: GroupScoring | None
) -> AsyncGenerator[Sample]:
    """The planned samples that are not done, group by group; the environments alternate if each has its own workers."""
    async with aclosing(opened.items(writer.run_id, in_turns=opened.plan.request.ray.by_environment)) as items:
        async for environment, sample in items:
            info = environment.host.info
            writer.add_tools(info.tools_digest, info.tools)
            if groups is not None and info.scores_groups and not await _is_open(sample, writer, directory, groups):
                continue
            if not writer.is_done(sample.rollout_id):
                yield sample


async def _is_open(sample: Sample, writer: RunWriter, directory: Path, groups: GroupScoring) -> bool:
    """Whether a sample's group still lacks its verdict; if the sample was played before, it is added to the group."""
    if writer.is_judged(sample.group_id):
        return False
    if writer.is_done(sample.rollout_id):
        waiting = writer.waiting_members.get(sample.rollout_id)
        groups.done_before(sample, waiting or await anyio.to_thread.run_sync(_read, directory, sample.rollout_id))
    return True


def _read(directory: Path, rollout_id: str) -> Rollout:
    with open_run(directory) as reader:
        return reader.rollout(rollout_id)
