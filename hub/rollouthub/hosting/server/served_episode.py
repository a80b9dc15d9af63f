"""One served episode: its seats behind tokens, its calls in flight, and its way from open to closed."""

import hashlib
import logging
import time
from collections.abc import Mapping
from typing import Any, Literal

import anyio
import anyio.lowlevel
from mcp_types import CallToolResult

from rollouthub.errors import HubError, TaskError
from rollouthub.hosting.control_wire import EpisodeStatus, OpenedEpisode, OpenedSeat
from rollouthub.hosting.local.hosted_episode import CLOSED
from rollouthub.hosting.local.seat_turns import TURNS_TOLD
from rollouthub.hosting.local.toolbox import LISTEN
from rollouthub.hosting.server.event_log import EventLog
from rollouthub.hosting.server.lazy_event import LazyEvent
from rollouthub.hosting.server.server_metrics import Metrics
from rollouthub.protocols import AgentPlane, Episode
from rollouthub.score import Score, Submission
from rollouthub.tools import text_result, told_task

logger = logging.getLogger(__name__)

MOST_CALLS = 64
"""Tool calls of one seat in flight at once; a further one is refused."""
TOO_MANY = f"Too many calls at once: at most {MOST_CALLS} may be in flight."
ANSWERED_SECONDS = 2.0
"""How long answers may take to be sent when nothing is left to be done for them."""
_LONGEST_NAME = 128
"""Of a tool's name as events tell it; what is called may be of any length."""
_LEFT = "The call was cancelled."


class Call:
    """A tool call in flight."""

    __slots__ = ("key", "scope")

    def __init__(self, key: object) -> None:
        self.key = key
        """How a later message may name it."""
        self.scope = anyio.move_on_after(None)  # `CancelScope()` would set each up twice


class ServedSeat:
    """One seat's agent plane, as its token opens it."""

    __slots__ = ("calls", "episode", "name", "plane", "requests", "sessions", "user")

    def __init__(self, episode: "ServedEpisode", name: str, plane: AgentPlane, user: object) -> None:
        self.episode, self.name, self.plane = episode, name, plane
        self.user = user
        """Who the MCP SDK takes its requests to come from."""
        self.calls: set[Call] = set()
        self.sessions: dict[str, None] = {}
        """Its MCP sessions by id, oldest first."""
        self.requests = 0
        """HTTP requests being served."""

    @property
    def task_text(self) -> str:
        """The task, as `instructions` say it."""
        told = told_task(self.plane.messages)
        takes_turns = any(tool.name == LISTEN for tool in self.plane.tools)
        return f"{told}\n\n{TURNS_TOLD}" if takes_turns else told

    def cancel(self, key: object) -> None:
        """Cancel the calls of this name."""
        for call in self.calls:
            if call.key == key:
                call.scope.cancel()

    async def call(self, name: str, arguments: Mapping[str, Any], call: Call) -> CallToolResult:
        """Call a tool; the caller cancels `call.scope` when no client waits for the result any more."""
        episode = self.episode
        if episode.is_sealed:
            episode.metrics.calls["closed"] += 1
            return text_result(CLOSED, is_error=True)
        if len(self.calls) >= MOST_CALLS:
            episode.metrics.calls["refused"] += 1
            return text_result(TOO_MANY, is_error=True)
        if episode.in_flight:
            await episode.settle()
        self.calls.add(call)
        episode.in_flight.add(call)
        said = name[:_LONGEST_NAME]
        episode.events.add("call_started", seat=self.name, tool=said)
        started, outcome = time.perf_counter(), "cancelled"
        try:
            with call.scope:
                result = await self.plane.call_tool(name, arguments)
                outcome = "error" if result.is_error else "ok"
                return result
            return text_result(_LEFT, is_error=True)
        finally:
            seconds = time.perf_counter() - started
            self.calls.discard(call)
            episode.ended(call)
            episode.metrics.called(outcome, seconds)
            episode.events.add("call_ended", seat=self.name, tool=said, seconds=seconds, outcome=outcome)
            episode.note_seal()


class ServedEpisode:
    """An episode and what the server knows of it."""

    def __init__(
        self, episode: Episode, metrics: Metrics, *, close_seconds: float, expires_at: float, seed: int, digest: str
    ) -> None:
        self.episode, self.metrics = episode, metrics
        self.events = EventLog()
        self.in_flight: set[Call] = set()
        self.seats: dict[bytes, ServedSeat] = {}
        """By the digest of their token."""
        self.ending = LazyEvent()
        """Set to request that the episode be closed."""
        self.closed = LazyEvent()
        self.close_error: TaskError | None = None
        self.expires_at = expires_at
        self.last_status: EpisodeStatus | None = None
        self._seed, self._digest = seed, digest
        self._close_seconds = close_seconds
        self._call_ended: anyio.Event | None = None
        self._request_ended: anyio.Event | None = None
        self._is_sealed = self._is_verified = False

    @property
    def is_sealed(self) -> bool:
        """Whether the agent's time is over."""
        return self._is_sealed or self.episode.is_sealed

    @property
    def state(self) -> Literal["open", "sealed", "closed"]:
        """The episode's state: open, sealed or closed."""
        return "closed" if self.closed.is_set() else "sealed" if self.is_sealed else "open"

    def add_seat(self, plane: AgentPlane, name: str, user: object) -> ServedSeat:
        """Give a seat its place; found again by its token's digest."""
        seat = self.seats[token_digest(plane.token)] = ServedSeat(self, name, plane, user)
        return seat

    def opened(self, base_url: str) -> OpenedEpisode:
        """The answer to the client that opened it: seats with their tokens, URLs, tools and opening messages."""
        seats = tuple(
            OpenedSeat(
                name=seat.name,
                token=seat.plane.token,
                url=f"{base_url}/e/{seat.plane.token}/mcp",
                tools=tuple(tool.name for tool in seat.plane.tools),
                task_tools=tuple(tool for tool in seat.plane.tools if tool.name in seat.plane.task_tools),
                messages=tuple(seat.plane.messages),
            )
            for seat in self.seats.values()
        )
        return OpenedEpisode(
            id=self.episode.id, seats=seats, seed=self._seed, tools_digest=self._digest, expires_at=self.expires_at
        )

    def status(self) -> EpisodeStatus:
        """Its status, as the control plane reports it."""
        episode = self.episode
        return EpisodeStatus(
            id=episode.id,
            state=self.state,
            answer=episode.answer,
            faults=tuple(episode.faults),
            role_calls=tuple(episode.role_calls),
            sandboxes=tuple(episode.sandboxes),
            artifacts=tuple(each.ref for each in episode.artifacts),
            missing_artifacts=tuple(episode.missing_artifacts),
            expires_at=self.expires_at,
        )

    def ended(self, call: Call) -> None:
        """A call is over, its clean-up done."""
        self.in_flight.discard(call)
        if self._call_ended is not None:
            self._call_ended.set()
            self._call_ended = None

    def request_ended(self) -> None:
        """A request is answered."""
        if self._request_ended is not None:
            self._request_ended.set()
            self._request_ended = None

    async def answered(self) -> None:
        """Wait a moment for answers on their way, such as that of the call which ended the episode."""
        with anyio.move_on_after(ANSWERED_SECONDS):
            while any(seat.requests > len(seat.calls) for seat in self.seats.values()):
                self._request_ended = self._request_ended or anyio.Event()
                await self._request_ended.wait()

    async def settle(self) -> None:
        """Wait until the calls whose caller has left are over, so that the next one meets a quiet place."""
        # A client that left by now may not have been seen to: its end waits in the event loop.
        await anyio.lowlevel.checkpoint()
        with anyio.move_on_after(self._close_seconds) as patience:
            while any(call.scope.cancel_called for call in self.in_flight):
                self._call_ended = self._call_ended or anyio.Event()
                await self._call_ended.wait()
        if patience.cancelled_caught:
            logger.warning("a cancelled tool call of episode %s did not end", self.episode.id)

    def note_seal(self) -> None:
        """Note the seal once, from any source."""
        if not self._is_sealed and self.episode.is_sealed:
            self._is_sealed = True
            self.events.add("sealed")

    async def seal(self) -> None:
        """End the agent's time."""
        await self.episode.seal()
        self.note_seal()

    async def verify(self, submission: Submission, *, unless_broken: bool = False) -> Score | None:
        """Seal and score; None where the environment broke before, and that was asked for.

        Raises:
            HubError: there is no score.
        """
        outcome = "scored"
        judge = self.episode.conclude if unless_broken else self.episode.verify
        try:
            score = await judge(submission)
            if score is None:
                outcome = "broken"
            return score
        except HubError as error:
            outcome = type(error).__name__
            raise
        finally:
            self.note_seal()
            if not self._is_verified:
                self._is_verified = True
                self.metrics.verdicts[outcome] += 1
                self.events.add("verified", outcome=outcome)

    async def close(self) -> None:
        """Tear the world down; how that went is in `close_error`."""
        try:
            await self.episode.close()
        except TaskError as error:
            self.close_error = error
        self.note_seal()
        self.last_status = self.status().model_copy(update={"state": "closed"})
        self.events.add("closed")
        self.events.end()
        self.closed.set()


def token_digest(token: str) -> bytes:
    """What a token is looked up by, so that the time of a look-up says nothing of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
