"""The connections of a process's listeners: how many there may be, and which one makes room for the next."""

import asyncio
import itertools
import logging
import math
import resource
from collections import Counter
from typing import Protocol
from weakref import WeakKeyDictionary

MOST_CONNECTIONS = 2**16
"""However many files may be open: each takes memory as well."""
_LOOKED_AT = 1000
"""Connections looked at to find one that can be closed: looking must stay cheaper than connecting."""
_WARNING_SECONDS = 60.0

logger = logging.getLogger(__name__)


def most_connections() -> int:
    """Connections that the listeners of this process have at once.

    Beyond the limit of open files nothing works any more. A connection may come from a sandbox through another socket
    of this process, so each counts as two; a quarter is left to models, stores and environments.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files < 0 else min(files * 3 // 8, MOST_CONNECTIONS)


class HeldConnection(Protocol):
    """A connection as the bound on them all sees it."""

    holder: bytes | None
    """Whose token it showed; None while it has shown none."""

    def ends_at(self) -> float | None:
        """When it will be closed unless its client does something; None while it is the server's turn."""
        ...

    def drop(self) -> None:
        """Close it at once."""
        ...


class Connections:
    """The open connections of one event loop's listeners."""

    def __init__(self) -> None:
        self.open: set[HeldConnection] = set()
        self.strangers: dict[HeldConnection, None] = {}
        """Those that never showed a token, the one longest idle first."""
        self._warned_at = -math.inf

    def admit(self, newest: HeldConnection, now: float) -> bool:
        """Take a connection in; at the bound another one is closed for it. Whether there is room."""
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
        """Forget one that is closed."""
        self.open.discard(connection)
        self.strangers.pop(connection, None)

    def _closable(self) -> HeldConnection | None:
        """The longest idle of those that never showed a token, or else of whoever holds most connections."""
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
        """Say so now and then: a line for each would only fill the disk, too."""
        if now > self._warned_at + _WARNING_SECONDS:
            self._warned_at = now
            logger.warning(
                "%d connections are open, the most there may be (ulimit -n); for each new one, an idle one is closed",
                most,
            )


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Connections] = WeakKeyDictionary()


def connections_of(loop: asyncio.AbstractEventLoop) -> Connections:
    """The connections of all listeners that a loop serves."""
    return _of_loops.setdefault(loop, Connections())
