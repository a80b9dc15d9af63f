"""A watched run: its state in the store and, while it plays, what its hub reports."""

import gc
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import TypeVar

import anyio.to_thread

from rollouthub.errors import HubError, LiveControlError, StoreError, said
from rollouthub.live.control.live_client import LiveClient, find_running, knock
from rollouthub.live.control.live_views import RunView
from rollouthub.live.follow import RunFeed

_Answer = TypeVar("_Answer")


class WatchedRun:
    """A run that is being watched, opened by one screen and shared with the screens above it."""

    def __init__(
        self,
        directory: Path,
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.time,
        *,
        reads_stages: bool = True,
    ) -> None:
        """`reads_stages` is whether the seconds of single stages are shown at once (`RunFeed`)."""
        self.directory = directory
        self.feed = RunFeed(directory, reads_stages=reads_stages)
        self.clock = clock
        self.view: RunView | None = None
        """The latest report of its hub; None if no hub plays it."""
        self.problem: str | None = None
        """Why the latest refresh failed, or None; what was read before is still shown."""
        self.is_open = False
        """Whether it has been read at least once."""
        self.pattern: str | None = None
        """The expression that its transcripts were last searched for, as `searching.compile_pattern` takes it."""
        self._environ = environ
        self._socket: Path | None = None
        self._reading = Lock()
        self._is_closed = False

    async def open(self) -> None:
        """Read the whole run in a thread; a large run takes a second.

        Raises:
            HubError: there is no run, or it is damaged or of a newer rollouthub.
        """
        await self.beside(lambda: _first(self.feed))
        self.is_open = True

    async def beside(self, read: Callable[[], _Answer]) -> _Answer:
        """Run `read`, which uses the feed, in a thread; if the run is closed meanwhile, the feed is closed afterwards.

        Raises:
            StoreError: the run was closed before.
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
        """Read new records, which takes a few milliseconds; returns whether there are any, or the problem has
        changed.
        """
        before = self.problem
        try:
            is_new = self.feed.refresh()
            self.problem = None
        except (HubError, OSError, sqlite3.Error) as error:
            is_new, self.problem = False, said(error)
        return is_new or before != self.problem

    async def look_in(self) -> None:
        """Ask its hub for a report; if the hub is not known, look for it first."""
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
        except LiveControlError:
            self._socket = self.view = None

    async def ask(self, question: Callable[[LiveClient], Awaitable[_Answer]]) -> _Answer:
        """Send its hub a request.

        Raises:
            LiveControlError: no hub plays it, or it does not answer, or refuses.
            UsageError: it does not understand the request, or has no such rollout in flight.
        """
        if self._socket is None:
            raise LiveControlError(f"no hub plays {self.directory.name} now")
        async with knock(self._socket) as client:
            return await question(client)

    @property
    def is_steered(self) -> bool:
        """Whether a hub that plays it is known."""
        return self._socket is not None

    def close(self) -> None:
        """Close the feed, at the latest when its present reader ends: SQLite would crash if closed under a reader."""
        self._is_closed = True
        if self._reading.acquire(blocking=False):
            self.feed.close()
            self._reading.release()


def _first(feed: RunFeed) -> None:
    """Read a run for the first time with the garbage collector off, since it makes millions of values and no
    garbage.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        feed.refresh()
    finally:
        if was_on:
            gc.enable()


def _is_same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()
