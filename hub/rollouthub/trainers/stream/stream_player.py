"""Plays the samples that a supply has begun: stamps records with policy versions, and reports how the run ended."""

from collections.abc import Mapping

import anyio

from rollouthub.engine.group_scoring import GroupScoring
from rollouthub.engine.in_flight import InFlight
from rollouthub.engine.pool import Pool
from rollouthub.engine.run import RunSink
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_limits import RunBounds
from rollouthub.engine.session import Session
from rollouthub.errors import SupplyError, raise_first_error
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter
from rollouthub.store.run_facts import State
from rollouthub.trainers.stream.group_tracker import GroupTracker
from rollouthub.trainers.stream.policy_version import stamped
from rollouthub.trainers.stream.sample_requests import Stamping
from rollouthub.trainers.stream.stream_source import Feeder, StreamSource
from rollouthub.trainers.stream.weight_sync_gate import WeightSyncGate


class StampingSink(RunSink):
    """Stamps records with policy versions on their way to the store, and notifies the supply or worker that waits
    for them.
    """

    def __init__(
        self,
        writer: RunWriter,
        live: LiveRun,
        limits: RunBounds | None,
        waiting: Stamping,
        gate: WeightSyncGate,
        groups: GroupScoring | None = None,
    ) -> None:
        super().__init__(writer, live, limits, groups=groups)
        self._waiting, self._gate = waiting, gate

    def attempts(self, rollout_id: str) -> int:
        """How many attempts at a sample have been made so far."""
        return max(super().attempts(rollout_id), self._waiting.attempts(rollout_id))

    async def add(self, rollout: Rollout, media: Mapping[str, bytes]) -> None:
        """Stamp a record and queue it for the store."""
        rollout = stamped(rollout, self._waiting.policy, self._gate.span_of(rollout.rollout_id))
        self._waiting.added(rollout)
        await super().add(rollout, media)

    def track(self, attempt: InFlight) -> None:
        """Publish an attempt's progress; an unwanted attempt is cancelled here."""
        super().track(attempt)
        if self._waiting.is_unwanted(attempt.sample.rollout_id):
            attempt.cancel()


class Breaker:
    """Cancels running episodes of a supply."""

    def __init__(self, live: LiveRun, source: StreamSource) -> None:
        self._live, self._source = live, source

    def break_off(self, rollout_id: str) -> bool:
        """Cancel a sample by its rollout id. Returns True if no attempt at it had been started."""
        if self._source.withdraw(rollout_id):
            return True
        if (attempt := self._live.attempts.get(rollout_id)) is not None:
            attempt.cancel()
        return False

    def discard(self) -> None:
        """Cancel every episode whose agent is at work, and have its sample played again."""
        for rollout_id, attempt in tuple(self._live.attempts.items()):
            if attempt.state in _AT_WORK and attempt.cancel():
                self._source.play_again(rollout_id)


_AT_WORK: tuple[State, ...] = ("model", "tool")


class StreamPlayer:
    """Plays the source's samples, and reports to the group tracker how the run ended."""

    def __init__(
        self,
        tracker: GroupTracker,
        source: StreamSource,
        feeder: Feeder,
        pool: Pool,
        sink: RunSink,
        session: Session,
    ) -> None:
        self._tracker, self._source, self._feeder, self._pool = tracker, source, feeder, pool
        self._sink, self._session = sink, session
        self.bug: Exception | None = None
        """An unexpected exception that ended the run."""

    async def run(self) -> None:
        """Play until the source is exhausted; an error is stored, and raised to the consumer when it asks for more."""
        try:
            async with raise_first_error():
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._feeder.run)
                    async with self._session.bounded():
                        await self._pool.play(self._source, self._sink)
                    tasks.cancel_scope.cancel()
                await self._session.writer.flush()
        except SupplyError as error:
            self._tracker.fail(error)
        except Exception as error:
            self.bug = error
            self._tracker.fail(error)
        else:
            if (reason := self._session.stop.reason) is not None:
                self._tracker.fail(SupplyError(f"the run has ended: {reason}"))
        self._tracker.abandon()
