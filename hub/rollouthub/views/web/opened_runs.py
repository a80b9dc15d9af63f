"""The runs that the pages show: found in folders, named in addresses, opened when a page needs them."""

import os
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from rollouthub.errors import UnknownNameError
from rollouthub.live.follow import RunFeed, RunsFeed, SeenRun
from rollouthub.live.follow.run_tallies import Tallies, Tally
from rollouthub.live.follow.task_summary import TaskSummary
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.statistics.pass_at_k import GroupSummary
from rollouthub.store import RunInfo
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.report.report_facts import Bar
from rollouthub.views.report.report_figures import distribution
from rollouthub.views.web.row_query import RowLists

MOST_OPEN, MOST_ROWS = 8, 300_000
"""Most runs that stay open, and most rollouts of all of them; one run may have more."""
MOST_LIVE, MOST_ENDED = 20_000, 400_000
"""Most attempts of a run that plays, and of an ended one, for which intervals and pass@k are shown."""
_FRESH_SECONDS, _HUB_SECONDS, _LIST_SECONDS = 0.3, 1.0, 1.0
_TALLY_SECONDS = 0.4
"""Seconds after which a list of runs is shown without the figures that were not read yet."""
_Answer = TypeVar("_Answer")


@dataclass(eq=False)
class OpenedRun:
    """One run that pages read from."""

    name: str
    """Its name in addresses."""
    watched: WatchedRun
    plainness: Plainness
    """Masks secrets in reports."""
    readers: int = 0
    """Number of requests that use it now."""
    summary: TaskSummary = field(default_factory=lambda: TaskSummary(MOST_LIVE, MOST_ENDED))
    _rewards: tuple[Bar, ...] = ()
    _counted: tuple[object, ...] = ()
    _refreshed: float = -1e9
    _asked: float = -1e9

    @property
    def feed(self) -> RunFeed:
        """Its columns and figures; only inside `read`."""
        return self.watched.feed

    @property
    def state(self) -> tuple[object, ...]:
        """What changes whenever a record of the run does; only inside `read`, or where it has ended."""
        columns, info = self.feed.columns, self.feed.info
        return columns.generation, len(columns), len(columns.withdrawn), info.run_id, info.status

    @cached_property
    def lists(self) -> RowLists:
        """Its lists of rollouts; only inside `read`."""
        return RowLists(self.watched.feed)

    def over_tasks(self) -> GroupSummary | None:
        """Intervals and pass@k; only inside `read`. None where there are none yet, or the run is too large."""
        return self.summary.of(self.feed)

    def place_of(self, rollout_id: str, attempt: int | None = None) -> int | None:
        """The row of an attempt, by default of the one that counts; only inside `read`. None if there is none."""
        columns = self.feed.columns
        for place in self.feed.places_of(rollout_id):
            if columns.effective[place] if attempt is None else columns.wholes["attempt"][place] == attempt:
                return place
        return None

    def rewards(self) -> tuple[Bar, ...]:
        """The distribution of rewards, counted again only where there is something new; only inside `read`."""
        if self._counted != (state := self.state):
            every = self.feed.columns.effective_part("reward", 0, len(self.feed.columns))
            self._rewards = distribution(reward for reward in every if reward == reward)  # an absent one is NaN
            self._counted = state
        return self._rewards

    async def refresh(self) -> None:
        """Read what is new, unless it was read a moment ago.

        Raises:
            HubError: the run does not exist any more, or is damaged.
        """
        now = time.monotonic()
        if not self.watched.is_open:
            await self.watched.open()
            self._refreshed = time.monotonic()
        elif now - self._refreshed > _FRESH_SECONDS:
            await self.watched.beside(self.watched.refresh)
            self._refreshed = time.monotonic()
        if self.feed.info.status != "running":
            await self.watched.look_in()
        elif now - self._asked > _HUB_SECONDS:
            self._asked = now
            await self.watched.look_in()

    async def read(self, make: Callable[["OpenedRun"], _Answer]) -> _Answer:
        """Run `make` in a thread in which it may use the feed."""
        return await self.watched.beside(lambda: make(self))


def address_name(real: Path) -> str:
    """The name of a run's folder, resolved before; `?` stands for bytes that are no UTF-8, as no address has them."""
    return real.name.encode("utf-8", "replace").decode() or "run"


class OpenedRuns:
    """All runs by their names in addresses, which no address can lead out of."""

    def __init__(self, roots: Sequence[Path], environ: Mapping[str, str], plainness: Plainness) -> None:
        self._feed, self._plainness = RunsFeed(roots, environ), plainness
        self._tallies = Tallies()
        self._environ = environ
        self._names: dict[Path, str] = {}
        self._directories: dict[str, Path] = {}
        self._open: OrderedDict[Path, OpenedRun] = OrderedDict()
        self._listed = -1e9
        self._opening = anyio.Lock()
        self._listing = anyio.Lock()

    def close(self) -> None:
        """Close all runs."""
        for opened in self._open.values():
            opened.watched.close()
        self._open.clear()

    async def list(self) -> Sequence[SeenRun]:
        """The runs, live ones first, then the newest first."""
        async with self._listing:
            if time.monotonic() - self._listed > _LIST_SECONDS:
                await self._feed.refresh()
                self._listed = time.monotonic()
                for run in self._feed.runs:
                    self.name_of(run.directory)
            return self._feed.runs

    async def read_tallies(self, runs: Sequence[SeenRun]) -> bool:
        """Read figures of runs for the list, for a moment at most; returns whether all are there."""

        def read() -> bool:
            until = time.monotonic() + _TALLY_SECONDS
            for run in runs:
                if time.monotonic() > until:
                    return False
                self._tallies.read([run])
            return True

        async with self._listing:
            return await anyio.to_thread.run_sync(read)

    @property
    def problems(self) -> Sequence[str]:
        """Problems of runs' sockets that did not answer."""
        return self._feed.problems

    def tally(self, run: SeenRun) -> Tally | None:
        """The figures of a run for the list; None while they are unknown."""
        return self._tallies.of(run)

    def name_of(self, directory: Path) -> str:
        """The name of a run in addresses: that of its folder, and if another run has it, with a digest of its path."""
        real = directory.resolve()
        name = self._names.get(real)
        if name is None:
            name = address_name(real)
            if name in self._directories:
                name = f"{name}~{sha256(os.fsencode(real)).hexdigest()[:8]}"
            self._names[real], self._directories[name] = name, real
        return name

    async def directory_of(self, name: str) -> Path:
        """The directory of a run; a run's id names it, too.

        Raises:
            UnknownNameError: there is no such run.
        """
        if name not in self._directories:
            runs = await self.list()
            same = [run.directory for run in runs if isinstance(run.info, RunInfo) and run.info.run_id == name]
            if len(same) == 1:
                return same[0].resolve()
        if name not in self._directories:
            raise UnknownNameError("run", name, list(self._directories)[:200])
        return self._directories[name]

    @asynccontextmanager
    async def using(self, name: str) -> AsyncGenerator[OpenedRun]:
        """A run, opened and up to date, for the length of the block.

        Raises:
            UnknownNameError: there is no such run.
            HubError: it cannot be read.
        """
        directory = await self.directory_of(name)
        opened = self._open.get(directory)
        if opened is None:
            watched = WatchedRun(directory, self._environ, reads_stages=False)
            opened = self._open[directory] = OpenedRun(self.name_of(directory), watched, self._plainness)
        self._open.move_to_end(directory)
        opened.readers += 1
        try:
            async with self._opening:  # one at a time: each takes a moment of the processor for itself
                await opened.refresh()
            self._close_others()
            yield opened
        except BaseException:
            if not opened.watched.is_open and self._open.get(directory) is opened:
                del self._open[directory]
                opened.watched.close()
            raise
        finally:
            opened.readers -= 1

    def _close_others(self) -> None:
        """Close the runs that were used longest ago, where there are too many or too large ones."""
        rows = sum(len(opened.feed.columns) for opened in self._open.values())
        for directory, opened in list(self._open.items())[:-1]:
            if len(self._open) <= MOST_OPEN and rows <= MOST_ROWS:
                return
            if not opened.readers:
                rows -= len(opened.feed.columns)
                del self._open[directory]
                opened.watched.close()
