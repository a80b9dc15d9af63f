"""What it costs a run to be watched: CPU of its process for a rollout, with and without a `hub watch`, by turns."""

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from envhub_tui.benching.played import HUB, Played, play
from envhub_tui.benching.terminal import Terminal

_FROM, _TO = 0.25, 0.95
"""What is measured of a run: neither its start nor its end, nor the start of what watches it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """CPU milliseconds for a rollout of two runs, one after the other."""

    alone_ms: float
    watched_ms: float

    @property
    def percent(self) -> float:
        """How much more the watched one took."""
        return 100 * (self.watched_ms / self.alone_ms - 1)


def measure_attached(
    scratch: Path, environ: Mapping[str, str], pairs: int, rollouts: int, say: Callable[[str], None]
) -> list[Pair]:
    """Play pairs of runs; in every second pair the watched one comes first."""
    found: list[Pair] = []
    for number in range(pairs):
        say(f"a run alone and one that is watched, pair {number + 1} of {pairs} …")
        taken: dict[bool, float] = {}
        for is_watched in (False, True) if number % 2 == 0 else (True, False):
            directory = scratch / f"pair-{number}-{'watched' if is_watched else 'alone'}"
            taken[is_watched] = _cpu_ms(directory, environ, rollouts, is_watched=is_watched)
        found.append(Pair(alone_ms=taken[False], watched_ms=taken[True]))
    return found


def percent_of(pairs: list[Pair]) -> float:
    """The middle one of the pairs' differences."""
    return statistics.median(pair.percent for pair in pairs)


def _cpu_ms(directory: Path, environ: Mapping[str, str], rollouts: int, *, is_watched: bool) -> float:
    with play(directory, environ, rollouts) as run, ExitStack() as stack:
        terminal: Terminal | None = None
        if is_watched:
            terminal = stack.enter_context(Terminal([*HUB, "watch", str(directory)], directory.parent, environ))
        first_done, first_cpu = _reach(run, terminal, _FROM * rollouts)
        last_done, last_cpu = _reach(run, terminal, _TO * rollouts)
        assert terminal is None or terminal.is_running, f"`hub watch` ended: {terminal.words()[-2000:]}"
        return 1e3 * (last_cpu - first_cpu) / (last_done - first_done)


def _reach(run: Played, terminal: Terminal | None, wanted: float) -> tuple[int, float]:
    while (done := run.done) < wanted and not run.is_over:
        if terminal is None:
            time.sleep(0.05)
        else:
            terminal.pump(0.05)
    return done, run.cpu
