"""Plays the sessions of outside agents, each in a task of its own; attempts are logged at the start and stored at
the end.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from weakref import ref

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
    """The idempotency key of a request, and the request's fingerprint."""

    key: str | None = None
    fingerprint: str | None = None


class SessionPlayer:
    """Plays sessions, and stores their records."""

    def __init__(
        self, tasks: TaskGroup, writer: RunWriter, sink: RunSink, sessions_log: OpenSessionsLog, retries: int
    ) -> None:
        """`retries` is the number of further attempts at an episode that fails before its addresses were given out."""
        self._tasks, self._writer, self._sink, self._sessions_log, self._retries = (
            tasks,
            writer,
            sink,
            sessions_log,
            retries,
        )
        self.is_stopping = False

    def begin(
        self, session: AgentSession, sample: Sample, number: int, asked: IdempotencyKey, over: Callable[[], None]
    ) -> None:
        """Play a session in the background; `over` is called just before the tasks that wait for its end are woken."""
        agent = ExternalAgent(session, sample.context.agent_ref.name)
        session.attempt = self._attempt(session, replace(sample, context=replace(sample.context, agent=agent)), number)
        self._tasks.start_soon(self._play, session, asked, over)

    def _attempt(self, session: AgentSession, sample: Sample, number: int) -> Attempt:
        known = ref(session)  # it holds the attempt, and a circle would keep both until the garbage is collected

        def track(attempt: Attempt) -> None:
            self._sink.track(attempt)
            if (session := known()) is not None:
                session.moved(attempt)

        return Attempt(sample, number, 0.0, track)

    async def _play(self, session: AgentSession, asked: IdempotencyKey, over: Callable[[], None]) -> None:
        left = self._retries
        try:
            rollout = await self._attempted(session, asked)
            while left and self._is_worth_another(session, rollout):
                left -= 1
                logger.info("%s attempt %d broke; trying again", session.id, rollout.attempt)
                session.attempt = self._attempt(session, session.sample, rollout.attempt + 1)
                rollout = await self._attempted(session, asked)
        except BaseException as error:
            over()
            session.end(None, error if isinstance(error, HubError) else TaskError("the hub has left"))
            raise
        over()
        session.end(rollout)

    async def _attempted(self, session: AgentSession, asked: IdempotencyKey) -> Rollout:
        """Play an attempt; returns its durable record.

        Raises:
            StoreError: the record cannot be stored.
        """
        attempt, rollout = session.attempt, None
        assert attempt is not None
        try:
            await self._sessions_log.note(entry_of(attempt, time.time(), asked.key, asked.fingerprint))
            rollout = session.explained(attempt.cancelled() if session.is_cancelled else await attempt.play())
            await self._sink.add(rollout, attempt.media)
            await self._writer.flush()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True, deadline=anyio.current_time() + LAST_RECORD_SECONDS):
                await self.keep_as_it_is(session, rollout)
            raise
        return rollout

    async def keep_as_it_is(self, session: AgentSession, rollout: Rollout | None = None) -> None:
        """Store the unfinished record of an attempt that does not end. If a record was stored already, that one is
        kept.

        Raises:
            StoreError: the record cannot be stored.
        """
        if session.attempt is not None:
            await self._sink.add(rollout or session.explained(session.attempt.cancelled()), session.attempt.media)

    def _is_worth_another(self, session: AgentSession, rollout: Rollout) -> bool:
        """Whether to retry: the addresses were not given out yet, and all faults are retryable."""
        return (
            rollout.outcome.kind == "infrastructure_fault"
            and not (session.was_open or session.is_cancelled or self.is_stopping)
            and all(fault.retryable for fault in rollout.faults)
        )
