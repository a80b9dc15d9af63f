"""Closes episodes whose time to live is over."""

import logging
import time
from heapq import heappop, heappush

import anyio

from rollouthub.gateway.sessions.session import AgentSession
from rollouthub.rollout import Fault

logger = logging.getLogger(__name__)


class SessionExpiry:
    """Ends each session at its expiry, unscored, because its agent may be gone. One task serves all sessions."""

    def __init__(self) -> None:
        self.count = 0
        """How many episodes were closed because their time to live was over."""
        self._queue: list[tuple[float, int, AgentSession]] = []
        self._added = 0
        self._news = anyio.Event()

    def expect(self, session: AgentSession) -> None:
        """Watch a session that has been opened."""
        assert session.expires_at is not None
        self._added += 1
        heappush(self._queue, (session.expires_at, self._added, session))
        if self._queue[0][2] is session:
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
        while self._queue and (self._queue[0][0] <= now or self._queue[0][2].state == "ended"):
            _, _, session = heappop(self._queue)
            if session.state == "open":
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
