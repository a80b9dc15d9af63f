"""The servers of one model, and the choice of a server for each call."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

import anyio

from rollouthub.generation import Model
from rollouthub.models.router.circuit_breaker import CircuitBreakerSettings
from rollouthub.models.router.replica import UNBOUNDED, ModelReplica

MAX_SESSIONS = 32_768
"""Most sessions whose server is remembered, about 8 MB; the least recently used is forgotten first."""

_BUSIER_FACTOR = 2
_BUSIER_CALLS = 8


class Replicas:
    """Chooses the least busy server, or for a session the server that has its conversation cached.

    A session stays with the server that answered it last, unless that server takes no calls, or has more than twice the
    calls of the least busy one plus eight: a cached prefix saves most of the work on a prompt, but with twice the calls
    in its batch a server generates at down to half the speed, and generation is most of a call's time. The eight calls
    keep sessions from moving because of small differences.
    """

    def __init__(
        self,
        lanes: Sequence[tuple[Model, str]],
        breaker: CircuitBreakerSettings,
        now: Callable[[], float],
        most_calls: int = UNBOUNDED,
    ) -> None:
        """`most_calls` is the most calls in flight at each server."""
        self.breaker = breaker
        self.now = now
        self._changed = anyio.Event()
        self.all = tuple(
            ModelReplica(lane, place, breaker, now, self._on_change, most_calls=most_calls, is_alone=len(lanes) == 1)
            for lane, place in lanes
        )
        self.on_change: Callable[[], None] = _nobody
        """Called whenever a server goes down or comes back."""
        self._homes: OrderedDict[str, ModelReplica] = OrderedDict()
        self._turn = 0

    def __len__(self) -> int:
        return len(self.all)

    def pick(self, session: str, failed: Collection[ModelReplica] = ()) -> ModelReplica | None:
        """The server for a call, except those in `failed`; None if no other server has room."""
        if len(self.all) == 1:
            only = self.all[0]
            return only if only.has_room and only not in failed else None
        count = len(self.all)
        self._turn = start = (self._turn + 1) % count
        now = self.now()
        best: ModelReplica | None = None
        for offset in range(count):
            replica = self.all[start + offset - count]
            if replica in failed or not replica.has_room:
                continue
            if replica.health == "trial":
                return replica  # else it would stay on trial for ever, being nobody's home
            if best is None or (replica.rest_until > now, replica.in_flight) < (best.rest_until > now, best.in_flight):
                best = replica
        home = self._homes.get(session) if session else None
        if best is None or home is None or home is best or home.health != "up" or not home.has_room or home in failed:
            return best
        is_busier = home.in_flight > _BUSIER_FACTOR * best.in_flight + _BUSIER_CALLS
        return best if is_busier or home.rest_until > now else home

    def has_room(self, failed: Collection[ModelReplica] = ()) -> bool:
        """Whether a server other than those in `failed` takes a call now."""
        return any(replica.has_room and replica not in failed for replica in self.all)

    def is_any_open(self, failed: Collection[ModelReplica] = ()) -> bool:
        """Whether a server other than those in `failed` takes calls, now or soon."""
        return any(replica.is_open and replica not in failed for replica in self.all)

    def remember(self, session: str, replica: ModelReplica) -> None:
        """Remember that this server has answered this session."""
        if not session or len(self.all) == 1:
            return
        homes = self._homes
        homes[session] = replica
        homes.move_to_end(session)
        if len(homes) > MAX_SESSIONS:
            homes.popitem(last=False)

    @property
    def outage_seconds(self) -> float | None:
        """Seconds since the last server went down; None while a server is up or on trial."""
        if any(replica.health != "down" for replica in self.all):
            return None
        return self.now() - max(replica.down_since for replica in self.all)

    @property
    def patience_seconds(self) -> float:
        """How many seconds to wait during an outage."""
        has_answered = any(replica.has_answered for replica in self.all)
        return self.breaker.patience_seconds if has_answered else self.breaker.first_patience_seconds

    async def wait_for_open(self, seconds: float) -> None:
        """Wait until a server may have begun to take calls, at most `seconds`."""
        for replica in self.all:
            opens_in = replica.opens_in
            if opens_in is not None:
                seconds = min(seconds, max(opens_in, 0.001))
        await self.wait_for_change(seconds)

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until a server goes down or comes back, at most `seconds`."""
        with anyio.move_on_after(seconds):
            await self._changed.wait()

    def _on_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
        self.on_change()


def _nobody() -> None:
    """Default of `on_change`: does nothing."""
