"""The progress and results of the visible runs, read again only if they changed."""

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rollouthub.errors import HubError
from rollouthub.live.control.live_views import RunView
from rollouthub.live.follow import SeenRun
from rollouthub.rollout import OutcomeKind
from rollouthub.store import RunInfo, open_run
from rollouthub.store.run_directories import DATABASE

_BREATH = 20
"""A live run is read again after this many times the duration of its last reading."""

_Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """A run's figures so far."""

    done: int | None
    """Number of samples with a record; None if unknown."""
    scored: int
    mean_reward: float | None
    """Mean over scored samples; None if there are none."""
    pass_rate: float | None
    """Fraction of samples with a verdict that passed; None if there are none."""
    kinds: Mapping[OutcomeKind, int] = field(default_factory=dict[OutcomeKind, int])
    """Kind of outcome → samples; empty where the run's hub reports the figures."""
    judged: int = 0
    """Number of samples with a verdict; 0 where the run's hub reports the figures."""
    passed: int = 0
    seconds: float | None = None
    """Seconds from the first attempt to the last record; None without any, and where the run's hub reports."""


@dataclass(slots=True)
class _KeptTally:
    stamp: _Stamp
    tally: Tally | None
    again: float
    """Earliest time for reading it again."""


class Tallies:
    """The figures of runs by directory."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[Path, _KeptTally] = {}

    def of(self, run: SeenRun) -> Tally | None:
        """The known figures of a run; None if there are none."""
        if run.view is not None:
            return tally_of(run.view)
        kept = self._kept.get(run.directory)
        return kept.tally if kept else None

    def is_read(self, run: SeenRun) -> bool:
        """Whether the figures of a run were read, or cannot be."""
        return run.view is not None or run.directory in self._kept or not isinstance(run.info, RunInfo)

    def read(self, runs: Iterable[SeenRun]) -> bool:
        """Read the figures of runs that changed; returns whether any did. Blocking; one thread at a time."""
        is_new = False
        for run in runs:
            if run.view is not None or not isinstance(run.info, RunInfo):
                continue
            stamp, now = _stamp(run.directory), self._clock()
            kept = self._kept.get(run.directory)
            if kept is not None and (kept.stamp == stamp or now < kept.again):
                continue
            tally = _read(run.directory)
            ended = self._clock()
            is_new = is_new or kept is None or kept.tally != tally
            self._kept[run.directory] = _KeptTally(stamp, tally, ended + _BREATH * (ended - now))
        return is_new


def tally_of(view: RunView) -> Tally:
    """The figures that a run's hub reports."""
    means = view.means or {}
    scored, reward, passed = means.get("scored"), means.get("mean_reward"), means.get("pass_rate")
    return Tally(
        view.done,
        scored if isinstance(scored, int) else 0,
        reward if isinstance(reward, int | float) else None,
        passed if isinstance(passed, int | float) else None,
    )


def _read(directory: Path) -> Tally | None:
    try:
        with open_run(directory) as reader:
            means, seconds = reader.means(), reader.seconds()
    except (HubError, OSError, ValueError, TypeError, sqlite3.Error):
        return None  # the list says what is wrong with it
    return Tally(
        means.finished,
        means.scored,
        means.mean_reward,
        means.pass_rate,
        means.kinds,
        means.judged,
        means.passed,
        seconds,
    )


def _stamp(directory: Path) -> _Stamp:
    found: list[tuple[int, int, int] | None] = []
    for suffix in ("", "-wal"):
        try:
            status = (directory / (DATABASE + suffix)).stat()
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
        except OSError:
            found.append(None)
    return tuple(found)
