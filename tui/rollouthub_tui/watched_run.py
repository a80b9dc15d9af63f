"""A watched run: the state in its store and, while it plays, at its hub."""

import gc
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import TypeVar

import anyio.to_thread

from rollouthub.errors import DoorError, HubError, StoreError, said
from rollouthub.live.control.live_client import LiveClient, find_running, knock
from rollouthub.live.control.live_protocol import RunView
from rollouthub.live.follow import RunFeed

_Answer = TypeVar("_Answer")


class WatchedRun:
    """Belongs to the screen that opened it; every screen above it looks at the same one."""

    def __init__(self, directory: Path, environ: Mapping[str, str], clock: Callable[[], float] = time.time) -> None:
        self.directory = directory
        self.feed = RunFeed(directory)
        self.clock = clock
        self.view: RunView | None = None
        """What its hub said last; None where none plays it."""
        self.problem: str | None = None
        """Why the latest refresh failed; what was read before is still shown."""
        self.is_open = False
        """Whether it was read at all."""
        self.pattern: str | None = None
        """The expression that its transcripts were last searched for, as `searching.compile_pattern` takes it."""
        self._environ = environ
        self._socket: Path | None = None
        self._reading = Lock()
        self._is_closed = False

    async def open(self) -> None:
        """Read everything that is there, beside the screen: of a large run it takes a second.

        Raises:
            HubError: there is no run, it is damaged, or of a newer rollouthub.
        """
        await self.beside(lambda: _first(self.feed))
        self.is_open = True

    async def beside(self, read: Callable[[], _Answer]) -> _Answer:
        """Read something of the feed beside the screen. What is closed meanwhile is given back when that is read.

        Raises:
            StoreError: it was closed before.
        """
        return await anyio.to_thread.run_sync(self._read, read)

    def _read(self, read: Callable[[], _Answer]) -> _Answer:
        try:
            with self._reading:
                if self._is_closed:
                    raise StoreError(f"{self.directory} is not watched any more; open it again")
                return read()
        finally:
            if self._is_closed:
                self.close()

    def refresh(self) -> bool:
        """Read what is new, a few milliseconds; whether anything is, a new problem included."""
        before = self.problem
        try:
            is_new = self.feed.refresh()
            self.problem = None
        except (HubError, OSError, sqlite3.Error) as error:
            is_new, self.problem = False, said(error)
        return is_new or before != self.problem

    async def look_in(self) -> None:
        """Ask its hub how it does; find the hub first where none is known."""
        if self.feed.info.status != "running":
            self._socket = self.view = None
            return
        if self._socket is None:
            running, _ = await find_running(self._environ, limit=0)
            found = next((hub for hub in running if _is_same(Path(hub.listing.run.directory), self.directory)), None)
            self._socket = found.path if found else None
            self.view = found.listing.run if found else None
            return
        try:
            self.view = (await self.ask(lambda client: client.list(0))).run
        except DoorError:
            self._socket = self.view = None

    async def ask(self, question: Callable[[LiveClient], Awaitable[_Answer]]) -> _Answer:
        """Ask its hub something, or have it do something.

        Raises:
            DoorError: no hub plays it, or it does not answer, or refuses.
            UsageError: it does not understand, or knows no such rollout in flight.
        """
        if self._socket is None:
            raise DoorError(f"no hub plays {self.directory.name} now")
        async with knock(self._socket) as client:
            return await question(client)

    @property
    def is_steered(self) -> bool:
        """Whether a hub plays it that answers."""
        return self._socket is not None

    def close(self) -> None:
        """Give back what reading took. Never under a thread that still reads: SQLite would bring down the process."""
        self._is_closed = True
        if self._reading.acquire(blocking=False):
            self.feed.close()
            self._reading.release()


def _first(feed: RunFeed) -> None:
    """Read a run for the first time: millions of values, none of them garbage, and nobody looks for any meanwhile."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        feed.refresh()
    finally:
        if was_on:
            gc.enable()


def _is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()
