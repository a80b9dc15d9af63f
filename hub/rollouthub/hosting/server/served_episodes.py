"""The episodes of a server: each a task of its own from open to close, signalled by requests."""

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from rollouthub.errors import HubError, NotOffered, TaskError
from rollouthub.hosting.control_wire import EpisodeStatus, OpenedEpisode, OpenEpisode
from rollouthub.hosting.server.served_episode import ServedEpisode, ServedSeat
from rollouthub.hosting.server.server_metrics import Metrics
from rollouthub.protocols import AgentPlane, EnvironmentHost

logger = logging.getLogger(__name__)

REMEMBERED = 10_000
"""Closed episodes that are known to have been."""

Value = TypeVar("Value")
NewUser = Callable[[str, str], object]


class Conflict(HubError):
    """What was asked contradicts what was asked before, or comes too late."""


class Unknown(HubError):
    """No episode has this id."""


class _Opening:
    """An episode on its way: those who asked for it wait for the outcome."""

    def __init__(self, request: OpenEpisode) -> None:
        self.request = request
        self.key, self.fingerprint = request.idempotency_key, _fingerprint(request)
        self.scope = anyio.CancelScope()
        self.episode_id: str | None = None
        self._done = anyio.Event()
        self._outcome: OpenedEpisode | HubError | None = None

    def settle(self, outcome: OpenedEpisode | HubError) -> None:
        """It is open, or will not be; the first outcome stands."""
        if not self._done.is_set():
            self._outcome = outcome
            self._done.set()

    async def outcome(self) -> OpenedEpisode:
        """Wait for it.

        Raises:
            HubError: it could not be opened.
        """
        await self._done.wait()
        assert self._outcome is not None
        if isinstance(self._outcome, HubError):
            raise self._outcome
        return self._outcome


class Episodes:
    """A server's open episodes, and what it remembers of closed ones."""

    def __init__(
        self,
        host: EnvironmentHost,
        tasks: TaskGroup,
        metrics: Metrics,
        *,
        base_url: str,
        ttl_seconds: float,
        new_user: NewUser,
        retire: Callable[[ServedEpisode], Awaitable[None]],
    ) -> None:
        """`tasks` holds the episodes' tasks; `retire` is awaited once an episode is sealed, and again when closed."""
        self._host, self._tasks, self._metrics = host, tasks, metrics
        self._base_url, self._ttl_seconds = base_url, ttl_seconds
        self._new_user, self._retire = new_user, retire
        self._open: dict[str, ServedEpisode] = {}
        self._seats: dict[bytes, ServedSeat] = {}
        self._openings: set[_Opening] = set()
        self._keys: dict[str, _Opening] = {}
        self._spent: OrderedDict[str, str] = OrderedDict()
        """Keys of closed episodes, with their ids."""
        self._closed: OrderedDict[str, float] = OrderedDict()
        """Closed episodes, with the time they would have expired."""
        self._ended = anyio.Event()
        self._is_stopping = False

    @property
    def opening(self) -> int:
        """Episodes that are being opened."""
        return sum(opening.episode_id is None for opening in self._openings)

    def seat(self, digest: bytes) -> ServedSeat | None:
        """The seat a token's digest stands for."""
        return self._seats.get(digest)

    def find(self, episode_id: str) -> ServedEpisode:
        """An open episode.

        Raises:
            Conflict: it is closed.
            Unknown: there is none.
        """
        found = self._open.get(episode_id)
        if found is not None:
            return found
        if episode_id in self._closed:
            raise Conflict(f"episode {episode_id!r} is closed")
        raise Unknown(f"no episode has the id {episode_id[:64]!r}; a server started again knows none of before")

    def closed(self, episode_id: str) -> EpisodeStatus | None:
        """What is still known of a closed episode."""
        expired = self._closed.get(episode_id)
        return None if expired is None else EpisodeStatus(id=episode_id, state="closed", expires_at=expired)

    async def open(self, request: OpenEpisode) -> OpenedEpisode:
        """Open an episode, or answer with the one its idempotency key opened.

        Raises:
            HubError: it cannot be opened as asked.
        """
        if request.params:
            raise NotOffered(f"unknown params: {', '.join(sorted(request.params))}; this environment takes none")
        if self._is_stopping:
            raise TaskError("the environment server is about to leave")
        opening = self._keyed(request)
        if opening is None:
            opening = self._start(request)
        try:
            return await opening.outcome()
        except anyio.get_cancelled_exc_class():
            if request.idempotency_key is None:
                opening.scope.cancel()  # nobody will ever know its id
            raise

    def _keyed(self, request: OpenEpisode) -> _Opening | None:
        key = request.idempotency_key
        if key is None:
            return None
        if key in self._spent:
            raise Conflict(f"episode {self._spent[key]!r} of idempotency key {key!r} is closed")
        opening = self._keys.get(key)
        if opening is not None and opening.fingerprint != _fingerprint(request):
            raise Conflict(f"idempotency key {key!r} was used for another request")
        return opening

    def _start(self, request: OpenEpisode) -> _Opening:
        opening = _Opening(request)
        if opening.key is not None:
            self._keys[opening.key] = opening
        self._openings.add(opening)
        self._tasks.start_soon(self._live, opening)
        return opening

    async def _live(self, opening: _Opening) -> None:
        """An episode from open to close."""
        try:
            with opening.scope:
                await self._open_and_keep(opening)
        except HubError as error:
            opening.settle(error)
        except Exception as error:
            logger.exception("an episode of %s broke", self._host.info.name)
            opening.settle(TaskError(f"the episode could not be opened: {type(error).__name__}"))
        finally:
            opening.settle(TaskError("the episode was given up while it was set up"))
            self._openings.discard(opening)
            self._ended.set()
            if opening.key is not None:
                del self._keys[opening.key]
                if opening.episode_id is not None:  # else the next try may fare better
                    _remember(self._spent, opening.key, opening.episode_id)

    async def _open_and_keep(self, opening: _Opening) -> None:
        request, host = opening.request, self._host
        ttl = min(request.ttl_seconds or self._ttl_seconds, self._ttl_seconds)
        card = await host.find_task(request.task.split, request.task.id, request.task.seed)
        deadlines = request.deadlines
        async with host.open(card, seed=request.seed, deadlines=deadlines, state=request.state) as episode:
            served = ServedEpisode(
                episode,
                self._metrics,
                close_seconds=deadlines.close,
                expires_at=time.time() + ttl,
                seed=request.seed,
                digest=host.info.tools_digest,
            )
            self._add(served, dict(episode.seats))
            opening.episode_id = episode.id
            opening.settle(served.opened(self._base_url))
            try:
                with anyio.move_on_after(ttl) as patience:
                    await served.ending.wait()
                if patience.cancelled_caught:
                    self._metrics.reaped += 1
                    logger.warning("episode %s was open for %g s; closing it", episode.id, ttl)
            finally:
                with anyio.CancelScope(shield=True):  # every wait inside has its own bound
                    await self._close(served)

    def _add(self, served: ServedEpisode, planes: dict[str, AgentPlane]) -> None:
        episode_id = served.episode.id
        for name, plane in planes.items():
            served.add_seat(plane, name, self._new_user(episode_id, name))
        self._open[episode_id] = served
        self._seats.update(served.seats)
        self._metrics.opened += 1
        self._metrics.open += 1
        served.events.add("opened")

    async def _close(self, served: ServedEpisode) -> None:
        await served.close()
        episode_id = served.episode.id
        del self._open[episode_id]
        for digest in served.seats:
            del self._seats[digest]
        self._metrics.open -= 1
        _remember(self._closed, episode_id, served.expires_at)
        await self._retire(served)

    async def seal(self, episode_id: str) -> ServedEpisode:
        """End the agent's time.

        Raises:
            HubError: there is no such episode.
        """
        served = self.find(episode_id)
        await served.seal()
        await self._retire(served)
        return served

    async def close(self, episode_id: str) -> EpisodeStatus:
        """Close an episode and wait for it; closing it again is no harm.

        Raises:
            HubError: there is no such episode, or its clean-up failed.
        """
        remembered = self.closed(episode_id)
        if remembered is not None:
            return remembered
        served = self.find(episode_id)
        served.ending.set()
        await served.closed.wait()
        if served.close_error is not None:
            raise served.close_error
        assert served.last_status is not None
        return served.last_status

    async def stop(self, seconds: float) -> bool:
        """Take no more, close what is open; whether that was done in time."""
        self._is_stopping = True
        for opening in tuple(self._openings):
            if opening.episode_id is None:
                opening.scope.cancel()
        for served in tuple(self._open.values()):
            served.ending.set()
        with anyio.move_on_after(seconds) as patience:
            while self._openings:
                self._ended = anyio.Event()
                await self._ended.wait()
        return not patience.cancelled_caught


def _fingerprint(request: OpenEpisode) -> bytes:
    """Tells requests apart that carry one key; a request itself may hold a large state."""
    return b"" if request.idempotency_key is None else hashlib.sha256(request.model_dump_json().encode()).digest()


def _remember(kept: OrderedDict[str, Value], key: str, value: Value) -> None:
    """Keep a value; the oldest goes when there are too many."""
    kept[key] = value
    while len(kept) > REMEMBERED:
        kept.popitem(last=False)
