"""Limits the number of connections of a process's listeners, and chooses which connection to close for a new one."""

import asyncio
import itertools
import logging
import math
import resource
from collections import Counter
from typing import Protocol
from weakref import WeakKeyDictionary

MOST_CONNECTIONS = 2**16
"""Upper limit on connections, even where more files may be open, because each connection takes memory."""
_LOOKED_AT = 1000
"""Maximum number of connections examined to find one to close; the search must stay cheaper than connecting."""
_WARNING_SECONDS = 60.0

logger = logging.getLogger(__name__)


def most_connections() -> int:
    """The maximum number of connections that the listeners of this process may have at once.

    It is derived from the limit of open files, beyond which nothing works any more. A connection from a sandbox may
    pass through a second socket of this process, so each counts as two; a quarter of the limit is left to models,
    stores and environments.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files < 0 else min(files * 3 // 8, MOST_CONNECTIONS)


class HeldConnection(Protocol):
    """An open connection, as the limit on connections needs it."""

    holder: bytes | None
    """The token, or its digest, that the connection last presented; None before any."""

    def ends_at(self) -> float | None:
        """The event loop's time at which the connection will be closed unless its client acts; None while the server
        must act.
        """
        ...

    def drop(self) -> None:
        """Close the connection at once."""
        ...


class Connections:
    """The open connections of one event loop's listeners."""

    def __init__(self) -> None:
        self.open: set[HeldConnection] = set()
        self.strangers: dict[HeldConnection, None] = {}
        """Connections that never presented a token, the longest idle first."""
        self._warned_at = -math.inf

    def admit(self, newest: HeldConnection, now: float) -> bool:
        """Register a connection; at the limit, close another connection for it. False if none could be closed."""
        if len(self.open) >= (most := most_connections()):
            self._warn(most, now)
            closed = self._closable()
            if closed is None:
                return False
            self.remove(closed)
            closed.drop()
        self.open.add(newest)
        self.strangers[newest] = None
        return True

    def remove(self, connection: HeldConnection) -> None:
        """Unregister a closed connection."""
        self.open.discard(connection)
        self.strangers.pop(connection, None)

    def _closable(self) -> HeldConnection | None:
        """The connection to close: the longest idle of those without a token, else an idle one of the holder with
        the most connections.
        """
        for stranger in itertools.islice(self.strangers, _LOOKED_AT):
            if stranger.ends_at() is not None:
                return stranger
        held = Counter[bytes]()
        idle: dict[bytes, tuple[float, HeldConnection]] = {}
        for connection in itertools.islice(self.open, _LOOKED_AT):
            if (holder := connection.holder) is None:
                continue
            held[holder] += 1
            ends_at = connection.ends_at()
            if ends_at is not None and (holder not in idle or ends_at < idle[holder][0]):
                idle[holder] = ends_at, connection
        most = max(idle, key=lambda holder: held[holder], default=None)
        return idle[most][1] if most is not None and held[most] > 1 else None

    def _warn(self, most: int, now: float) -> None:
        """Log that the limit is reached, at most once per interval: a line for each connection would fill the disk."""
        if now > self._warned_at + _WARNING_SECONDS:
            self._warned_at = now
            logger.warning(
                "%d connections are open, the most there may be (ulimit -n); for each new one, an idle one is closed",
                most,
            )


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Connections] = WeakKeyDictionary()


def connections_of(loop: asyncio.AbstractEventLoop) -> Connections:
    """The connections of all listeners on an event loop."""
    return _of_loops.setdefault(loop, Connections())
