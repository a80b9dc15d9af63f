"""One run from plan to committed rollouts."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

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
from rollouthub.models.credentials import Credentials
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter


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
    async with open_session(
        plan,
        directory,
        given=given,
        resume=resume,
        credentials=credentials,
        live=live,
        stop=stop,
        tasks="planned",
    ) as session:
        writer, planned = session.writer, session.planned or 0
        session.on_commit.append(observer.committed)
        pool = session.pool()
        session.begin(pool)
        observer.started(writer.run_id, planned, writer.done_count, session.bad_rows)
        sink = RunSink(writer, session.live, session.bounds, Refusals(stop))
        async with session.bounded(), aclosing(_remaining(session.opened, writer)) as items:
            await pool.collect(items, sink)
        await _say_how_it_ended(directory, writer, stop, planned, observer)
        session.ending = "interrupted" if stop.is_set else "finished"


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


async def _remaining(opened: OpenPlan, writer: RunWriter) -> AsyncGenerator[Sample]:
    """What is planned and not done, group by group; in turns where each environment has workers of its own."""
    async with aclosing(opened.items(writer.run_id, in_turns=opened.plan.request.ray.by_environment)) as items:
        async for environment, item in items:
            info = environment.host.info
            writer.add_tools(info.tools_digest, info.tools)
            if not writer.is_done(item.rollout_id):
                yield item
