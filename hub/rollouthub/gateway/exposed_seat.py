"""A seat of a running episode that agents outside the hub can reach by its token."""

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
from mcp_types import CallToolResult, Tool

from rollouthub.engine.abandoned_calls import AbandonableCall
from rollouthub.engine.external_calls import OutsideCalls
from rollouthub.engine.seat import EpisodeSeat
from rollouthub.errors import EpisodeError, EpisodeStop
from rollouthub.gateway.model_api.retry_cache import RetryCache
from rollouthub.gateway.rate_limit import TokenBucket
from rollouthub.hosting.local.hosted_episode import BROKEN, CLOSED
from rollouthub.hosting.server.agent_plane import AgentPlaneApp, new_user
from rollouthub.hosting.server.served_episode import ServedEpisode, ServedSeat
from rollouthub.hosting.server.server_metrics import Metrics
from rollouthub.http.asgi import Scope, connection_of
from rollouthub.messages import Message
from rollouthub.protocols import EnvironmentInfo, ServedPlane
from rollouthub.tools import text_result

logger = logging.getLogger(__name__)

END_SECONDS = 5.0
"""Seconds to wait for cancelled calls when a seat closes."""
LIMITED = "The episode has reached its limit ({limit}); nothing more can be done in it."


class RecordedPlane:
    """A seat's agent plane for MCP clients, whose calls are recorded."""

    def __init__(self, seat: EpisodeSeat, calls: OutsideCalls) -> None:
        self._seat, self._calls = seat, calls
        self.token, self.messages = seat.plane.token, seat.plane.messages

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The seat's tools; a turn of a conversation may add more."""
        return self._seat.plane.tools

    @property
    def task_tools(self) -> frozenset[str]:
        """The names of the tools that only this task has."""
        return self._seat.plane.task_tools

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call one of the seat's tools. A fault is not raised: it is recorded, and the agent gets a fixed error."""
        try:
            return await self._calls.call(name, arguments)
        except EpisodeStop as stop:
            return stopped(stop)
        except EpisodeError:
            return text_result(BROKEN, is_error=True)

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The environment's next user messages; outside clients get them through the tool `reply`."""
        return await self._seat.reply(messages)


def stopped(stop: EpisodeStop) -> CallToolResult:
    """The tool result for a call after a limit is reached or the episode is sealed."""
    if stop.stop == "submitted":
        return text_result(CLOSED, is_error=True)
    return text_result(LIMITED.format(limit=stop.stop), is_error=True)


class ExposedSeat:
    """One seat, reachable by its token."""

    def __init__(self, seat: EpisodeSeat, info: EnvironmentInfo, metrics: Metrics, close_seconds: float) -> None:
        self.seat = seat
        self.calls = OutsideCalls(seat)
        self.retry_cache = RetryCache()
        self.model_calls = 0
        """How many calls of the model API are being served."""
        self.requests = 0
        """How many forwarded HTTP requests are being served."""
        self.bucket: TokenBucket | None = None
        """The rate limit of the token; None without one, when only calls in flight are limited."""
        self.app: AgentPlaneApp | None = None
        """The MCP application that serves it; None if calls are forwarded to the environment's own server."""
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
        self._served_plane = seat.plane if isinstance(seat.plane, ServedPlane) else None
        self.served: ServedSeat = served.add_seat(plane, seat.name, new_user(seat.episode.id, seat.name))

    def wait_seconds(self) -> float:
        """Count a request; returns the seconds that its sender must wait, 0 if it may be served."""
        return 0.0 if self.bucket is None else self.bucket.take()

    @contextmanager
    def while_open(self, scope: Scope) -> Generator[AbandonableCall]:
        """Run the block for a client of this seat; it is cancelled, without an error, when the client disconnects or
        the seat closes.
        """
        connection = connection_of(scope)
        with anyio.move_on_after(None) as work:  # `CancelScope()` would set each up twice
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
        """Close the seat: cancel its calls in flight and wait for them, so that none adds to its record afterwards."""
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
        """The token in the seat's two URLs."""
        return self.seat.plane.token

    @property
    def forward_url(self) -> str | None:
        """The seat's URL at the server of its environment; None if the environment is hosted in this process."""
        return None if self._served_plane is None else self._served_plane.url

    def note_submitted(self) -> None:
        """Note that an answer was submitted at the environment's own server, which sealed the episode."""
        if self._served_plane is not None:
            self._served_plane.note_submitted()
        self.seat.look()
