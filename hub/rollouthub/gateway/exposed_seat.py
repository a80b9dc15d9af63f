"""A seat of a running episode, opened to the outside: what its token stands for."""

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
from mcp_types import CallToolResult

from rollouthub.engine.abandoned_calls import AbandonableCall
from rollouthub.engine.external_calls import OutsideCalls
from rollouthub.engine.seat import EpisodeSeat
from rollouthub.errors import EpisodeError, EpisodeStop
from rollouthub.gateway.model_api.retry_cache import Deliveries
from rollouthub.gateway.rate_limit import TokenBucket
from rollouthub.hosting.local.hosted_episode import BROKEN, CLOSED
from rollouthub.hosting.server.agent_plane import new_user
from rollouthub.hosting.server.served_episode import ServedEpisode, ServedSeat
from rollouthub.hosting.server.server_metrics import Metrics
from rollouthub.http.asgi import Scope, connection_of
from rollouthub.messages import Message
from rollouthub.protocols import EnvironmentInfo
from rollouthub.tools import text_result

logger = logging.getLogger(__name__)

END_SECONDS = 5.0
"""What is in flight when a seat closes is cancelled, and waited for no longer than this."""
LIMITED = "The episode has reached its limit ({limit}); nothing more can be done in it."


class RecordedPlane:
    """A seat's agent plane whose calls are recorded: what MCP clients are served with."""

    def __init__(self, seat: EpisodeSeat, calls: OutsideCalls) -> None:
        self._seat, self._calls = seat, calls
        self.token, self.messages, self.tools = seat.plane.token, seat.plane.messages, seat.plane.tools

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call one of the seat's tools; never raises for what broke: the record says that, the agent is told least."""
        try:
            return await self._calls.call(name, arguments)
        except EpisodeStop as stop:
            return stopped(stop)
        except EpisodeError:
            return text_result(BROKEN, is_error=True)

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The environment's next user messages; clients from outside meet them as the tool `reply`."""
        return await self._seat.reply(messages)


def stopped(stop: EpisodeStop) -> CallToolResult:
    """What a call is answered with once a limit is reached, or the episode sealed."""
    if stop.stop == "submitted":
        return text_result(CLOSED, is_error=True)
    return text_result(LIMITED.format(limit=stop.stop), is_error=True)


class Exposure:
    """One seat, open to whoever holds its token."""

    def __init__(self, seat: EpisodeSeat, info: EnvironmentInfo, metrics: Metrics, close_seconds: float) -> None:
        self.seat, self.info = seat, info
        self.calls = OutsideCalls(seat)
        self.deliveries = Deliveries()
        self.model_calls = 0
        """Calls of the model seam being served."""
        self.requests = 0
        """Forwarded HTTP requests being served."""
        self.bucket: TokenBucket | None = None
        """How often its token may ask; None where only calls in flight are counted."""
        self.is_over = False
        self._work: set[AbandonableCall] = set()
        self._idle: anyio.Event | None = None
        plane = RecordedPlane(seat, self.calls)
        served = ServedEpisode(
            seat.episode,
            metrics,
            close_seconds=close_seconds,
            expires_at=0.0,
            seed=0,
            digest=info.tools_digest,
        )
        self.served: ServedSeat = served.add_seat(plane, seat.name, new_user(seat.episode.id, seat.name))

    def wait_seconds(self) -> float:
        """Count a request; how long its sender should have waited, 0 where it may be served."""
        return 0.0 if self.bucket is None else self.bucket.take()

    @contextmanager
    def while_open(self, scope: Scope) -> Generator[AbandonableCall]:
        """Work for a client of this seat for as long as both are there; left behind quietly when one is not."""
        connection = connection_of(scope)
        with anyio.CancelScope() as work:
            patience = AbandonableCall(work)
            self._work.add(patience)
            if connection is not None:
                connection.watch(patience)
            if self.is_over:
                patience.cancel()
            try:
                yield patience
            finally:
                if connection is not None:
                    connection.forget(patience)
                self._work.discard(patience)
                if self._idle is not None and not self._work:
                    self._idle.set()

    async def end(self) -> None:
        """Nothing is done in the name of this seat any more: no call still in flight adds to its record."""
        self.is_over = True
        for patience in tuple(self._work):
            patience.cancel()
        if self._work:
            self._idle = anyio.Event()
            with anyio.CancelScope(shield=True), anyio.move_on_after(END_SECONDS) as late:
                await self._idle.wait()
            if late.cancelled_caught:
                logger.warning("calls of an agent outside did not end within %g s", END_SECONDS)

    @property
    def token(self) -> str:
        """What opens it."""
        return self.seat.plane.token

    @property
    def forward_url(self) -> str | None:
        """Where the seat is served by its environment's own process; None where that is this one."""
        url: object = getattr(self.seat.plane, "url", None)
        return url if isinstance(url, str) else None

    def note_submitted(self) -> None:
        """An answer was handed in at the environment's own process, which sealed the episode."""
        note: object = getattr(self.seat.plane, "note_submitted", None)
        if callable(note):
            note()
        self.seat.look()
