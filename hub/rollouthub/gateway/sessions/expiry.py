"""Closes episodes whose time to live is over."""

import logging
import time
from heapq import heappop, heappush
from weakref import ref

import anyio

from rollouthub.gateway.sessions.session import AgentSession
from rollouthub.rollout import Fault

logger = logging.getLogger(__name__)


class SessionExpiry:
    """Ends each session at its expiry, unscored, because its agent may be gone. One task serves all sessions."""

    def __init__(self) -> None:
        self.count = 0
        """How many episodes were closed because their time to live was over."""
        # Not the sessions themselves: those that have ended would stay in memory for their time to live.
        self._queue: list[tuple[float, int, ref[AgentSession]]] = []
        self._added = 0
        self._news = anyio.Event()

    def expect(self, session: AgentSession) -> None:
        """Watch a session that has been opened."""
        assert session.expires_at is not None
        self._added += 1
        heappush(self._queue, (session.expires_at, self._added, ref(session)))
        if self._queue[0][1] == self._added:
            self._news.set()

    async def run(self) -> None:
        """Close expired sessions until cancelled."""
        while True:
            self._news = anyio.Event()
            left = self._queue[0][0] - time.time() if self._queue else None
            if left is None or left > 0:
                with anyio.move_on_after(left):
                    await self._news.wait()
            self._reap(time.time())

    def _reap(self, now: float) -> None:
        while self._queue:
            expires_at, _, known = self._queue[0]
            session = known()
            if session is not None and session.state != "ended" and expires_at > now:
                return
            heappop(self._queue)
            if session is not None and session.state == "open":
                self.count += 1
                logger.warning("episode %s was open for %g s; closing it", session.id, session.ttl_seconds)
                session.cancel(
                    Fault(
                        boundary="hub",
                        phase="agent",
                        type="Expired",
                        message=f"no client had ended the episode after {session.ttl_seconds:g} s, its time to live",
                    )
                )
