"""Closing episodes that nobody has ended in their time."""

import logging
import time
from heapq import heappop, heappush

import anyio

from rollouthub.gateway.sessions.session import AgentSession
from rollouthub.rollout import Fault

logger = logging.getLogger(__name__)


class SessionExpiry:
    """Ends each visit at its expiry, unscored: whoever played it may be gone. One task for all of them."""

    def __init__(self) -> None:
        self.count = 0
        """Episodes closed for their age."""
        self._queue: list[tuple[float, int, AgentSession]] = []
        self._added = 0
        self._news = anyio.Event()

    def expect(self, visit: AgentSession) -> None:
        """Watch a visit that is open now."""
        assert visit.expires_at is not None
        self._added += 1
        heappush(self._queue, (visit.expires_at, self._added, visit))
        if self._queue[0][2] is visit:
            self._news.set()

    async def run(self) -> None:
        """Reap until cancelled."""
        while True:
            self._news = anyio.Event()
            left = self._queue[0][0] - time.time() if self._queue else None
            if left is None or left > 0:
                with anyio.move_on_after(left):
                    await self._news.wait()
            self._reap(time.time())

    def _reap(self, now: float) -> None:
        while self._queue and (self._queue[0][0] <= now or self._queue[0][2].state == "ended"):
            _, _, visit = heappop(self._queue)
            if visit.state == "open":
                self.count += 1
                logger.warning("episode %s was open for %g s; closing it", visit.id, visit.ttl_seconds)
                visit.cancel(
                    Fault(
                        boundary="hub",
                        phase="agent",
                        type="Expired",
                        message=f"nobody had ended the episode after {visit.ttl_seconds:g} s, its time to live",
                    )
                )
