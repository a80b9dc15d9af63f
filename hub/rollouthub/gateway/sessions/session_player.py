"""Playing visits: each in a task of its own, begun in the journal, ended in the run's store."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio
from anyio.abc import TaskGroup

from rollouthub.engine.attempt import Attempt
from rollouthub.engine.pool import LAST_RECORD_SECONDS
from rollouthub.engine.run import RunSink
from rollouthub.engine.sample import Sample
from rollouthub.errors import HubError, TaskError
from rollouthub.gateway.sessions.external_agent import ExternalAgent
from rollouthub.gateway.sessions.open_sessions_log import OpenSessionsLog, entry_of
from rollouthub.gateway.sessions.session import AgentSession
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """What an episode was asked for with."""

    key: str | None = None
    fingerprint: str | None = None


class SessionPlayer:
    """Plays visits, and keeps their records."""

    def __init__(
        self, tasks: TaskGroup, writer: RunWriter, sink: RunSink, journal: OpenSessionsLog, retries: int
    ) -> None:
        """`retries` is how many further attempts one gets that breaks before anyone was told of it."""
        self._tasks, self._writer, self._sink, self._journal, self._retries = tasks, writer, sink, journal, retries
        self.is_stopping = False

    def begin(
        self, visit: AgentSession, item: Sample, number: int, asked: IdempotencyKey, over: Callable[[], None]
    ) -> None:
        """Play a visit; `over` is called right before those hear of its end who wait for it."""
        agent = ExternalAgent(visit, item.cast.agent_ref.name)
        visit.attempt = self._attempt(visit, replace(item, cast=replace(item.cast, agent=agent)), number)
        self._tasks.start_soon(self._play, visit, asked, over)

    def _attempt(self, visit: AgentSession, item: Sample, number: int) -> Attempt:
        def track(attempt: Attempt) -> None:
            self._sink.track(attempt)
            visit.moved(attempt)

        return Attempt(item, number, 0.0, track)

    async def _play(self, visit: AgentSession, asked: IdempotencyKey, over: Callable[[], None]) -> None:
        left = self._retries
        try:
            rollout = await self._attempted(visit, asked)
            while left and self._is_worth_another(visit, rollout):
                left -= 1
                logger.info("%s attempt %d broke; trying again", visit.id, rollout.attempt)
                visit.attempt = self._attempt(visit, visit.item, rollout.attempt + 1)
                rollout = await self._attempted(visit, asked)
        except BaseException as error:
            over()
            visit.end(None, error if isinstance(error, HubError) else TaskError("the hub has left"))
            raise
        over()
        visit.end(rollout)

    async def _attempted(self, visit: AgentSession, asked: IdempotencyKey) -> Rollout:
        """Play an attempt; its durable record.

        Raises:
            StoreError: it cannot be kept.
        """
        attempt, rollout = visit.attempt, None
        assert attempt is not None
        try:
            await self._journal.note(entry_of(attempt, time.time(), asked.key, asked.fingerprint))
            rollout = visit.explained(attempt.cancelled() if visit.is_cancelled else await attempt.play())
            await self._sink.add(rollout, attempt.media)
            await self._writer.flush()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True, deadline=anyio.current_time() + LAST_RECORD_SECONDS):
                await self.keep_as_it_is(visit, rollout)
            raise
        return rollout

    async def keep_as_it_is(self, visit: AgentSession, rollout: Rollout | None = None) -> None:
        """Keep the record of an attempt that will not end by itself. Keeping it twice keeps the first.

        Raises:
            StoreError: it cannot be kept.
        """
        if visit.attempt is not None:
            await self._sink.add(rollout or visit.explained(visit.attempt.cancelled()), visit.attempt.media)

    def _is_worth_another(self, visit: AgentSession, rollout: Rollout) -> bool:
        """Whether nobody was there yet, and another attempt may fare better."""
        return (
            rollout.outcome.kind == "infrastructure_fault"
            and not (visit.was_open or visit.is_cancelled or self.is_stopping)
            and all(fault.retryable for fault in rollout.faults)
        )
