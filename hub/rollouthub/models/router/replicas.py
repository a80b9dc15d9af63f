"""The servers of one model, and which of them takes a call."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

import anyio

from rollouthub.models.router.circuit_breaker import Cooling
from rollouthub.models.router.replica import UNBOUNDED, ModelReplica
from rollouthub.protocols import Model

MAX_SESSIONS = 32_768
"""Sessions whose server is remembered; the one used longest ago is forgotten first. About 8 MB when full."""

_BUSIER_FACTOR = 2
_BUSIER_CALLS = 8


class Replicas:
    """Chooses the least busy server, and for a session the one that knows its conversation.

    A session stays with the server that answered it last, whose cache holds its prefix, unless that one is not open,
    or has more than twice the calls of the least busy one and eight: a cached prefix saves most of the work on a
    prompt, but with twice the calls in its batch a server writes at up to half the speed, and writing is most of a
    call's time. The eight keep small differences from scattering sessions.
    """

    def __init__(
        self,
        lanes: Sequence[tuple[Model, str]],
        cooling: Cooling,
        now: Callable[[], float],
        most_calls: int = UNBOUNDED,
    ) -> None:
        """`most_calls`: how many there may be in flight."""
        self.cooling = cooling
        self.now = now
        self._changed = anyio.Event()
        self.all = tuple(
            ModelReplica(lane, place, cooling, now, self._on_change, most_calls=most_calls, is_alone=len(lanes) == 1)
            for lane, place in lanes
        )
        self.on_change: Callable[[], None] = _nobody
        """Told whenever a server goes down or comes back."""
        self._homes: OrderedDict[str, ModelReplica] = OrderedDict()
        self._turn = 0

    def __len__(self) -> int:
        return len(self.all)

    def pick(self, session: str, failed: Collection[ModelReplica] = ()) -> ModelReplica | None:
        """The server to send a call to, but for those that have failed it; None where none of the others has room."""
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
        """Whether a server takes a call right now, but for those that have failed this one."""
        return any(replica.has_room and replica not in failed for replica in self.all)

    def is_any_open(self, failed: Collection[ModelReplica] = ()) -> bool:
        """Whether a server takes calls, now or soon, but for those that have failed this one."""
        return any(replica.is_open and replica not in failed for replica in self.all)

    def remember(self, session: str, replica: ModelReplica) -> None:
        """This server has answered this session."""
        if not session or len(self.all) == 1:
            return
        homes = self._homes
        homes[session] = replica
        homes.move_to_end(session)
        if len(homes) > MAX_SESSIONS:
            homes.popitem(last=False)

    @property
    def outage_seconds(self) -> float | None:
        """How long no server has been up; None while one is, or is on trial."""
        if any(replica.health != "down" for replica in self.all):
            return None
        return self.now() - max(replica.down_since for replica in self.all)

    @property
    def patience_seconds(self) -> float:
        """How long an outage is worth waiting for."""
        has_answered = any(replica.has_answered for replica in self.all)
        return self.cooling.patience_seconds if has_answered else self.cooling.first_patience_seconds

    async def wait_for_open(self, seconds: float) -> None:
        """Until a server may have begun to take calls, or the time is over."""
        for replica in self.all:
            opens_in = replica.opens_in
            if opens_in is not None:
                seconds = min(seconds, max(opens_in, 0.001))
        await self.wait_for_change(seconds)

    async def wait_for_change(self, seconds: float) -> None:
        """Until a server goes down or comes back, or the time is over."""
        with anyio.move_on_after(seconds):
            await self._changed.wait()

    def _on_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
        self.on_change()


def _nobody() -> None:
    """Nobody wants to know."""
