"""What being watched costs a run: CPU time per rollout of its process, alternately with and without a `hub watch`."""

import random
import signal
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rollouthub.bench.real_runs import HUB, PlayedRun, play
from rollouthub.errors import HubError
from rollouthub_tui.bench.terminal import Terminal

_FROM, _TO = 0.15, 0.95
"""Fractions of a run, and of a window, between which is measured: starts and ends are left out."""
_WINDOW_SECONDS = 0.7
"""Seconds of a window. They are short, since a machine's speed changes within seconds, so that whole runs cannot be
compared. A resumed `hub watch` does at once what it does every two seconds: its cost is overestimated rather than
underestimated.
"""


@dataclass(frozen=True, slots=True)
class CostPair:
    """CPU milliseconds per rollout of one run, in its windows alone and in its windows while watched."""

    alone_ms: float
    watched_ms: float

    @property
    def percent(self) -> float:
        """By how many percent more it took while watched."""
        return 100 * (self.watched_ms / self.alone_ms - 1)


def measure_attached(
    scratch: Path, environ: Mapping[str, str], pairs: int, rollouts: int, say: Callable[[str], None]
) -> list[CostPair]:
    """Play runs, each watched in every second window."""
    found: list[CostPair] = []
    for number in range(pairs):
        say(f"a run that is alone and watched by turns, {number + 1} of {pairs} …")
        found.append(_pair(scratch / f"pair-{number}", environ, rollouts))
    return found


def percent_of(pairs: list[CostPair]) -> float:
    """The median of the pairs' differences in percent."""
    return statistics.median(pair.percent for pair in pairs)


def _pair(directory: Path, environ: Mapping[str, str], rollouts: int) -> CostPair:
    taken: dict[bool, tuple[int, float]] = {True: (0, 0.0), False: (0, 0.0)}
    with (
        play(directory, environ, rollouts) as run,
        Terminal([*HUB, "watch", str(directory)], directory.parent, environ) as terminal,
    ):
        while run.done < _FROM * rollouts and not run.is_over:
            terminal.pump(0.05)
        # By lot, for a run does things every half second and every two: some would always fall into the same windows.
        lot = random.Random(directory.name)
        while run.done < _TO * rollouts and not run.is_over:
            order = lot.sample((False, True), 2)
            windows = [(is_watched, *_window(run, terminal, is_watched=is_watched)) for is_watched in order]
            if run.done < _TO * rollouts:  # else the run's end is in them
                for is_watched, done, cpu in windows:
                    taken[is_watched] = (taken[is_watched][0] + done, taken[is_watched][1] + cpu)
        if not terminal.is_running:
            raise HubError(f"`hub watch` ended while it was measured: {terminal.words()[-2000:]}")
    if not all(done for done, _ in taken.values()):
        raise HubError(f"a run of {rollouts:,} rollouts was over before it could be measured; ask for more of them")
    alone, watched = (1e3 * cpu / done for done, cpu in (taken[False], taken[True]))
    return CostPair(alone_ms=alone, watched_ms=watched)


def _window(run: PlayedRun, terminal: Terminal, *, is_watched: bool) -> tuple[int, float]:
    """Rollouts finished within a window, and the CPU seconds that the run used in it."""
    terminal.process.send_signal(signal.SIGCONT if is_watched else signal.SIGSTOP)
    try:
        done, cpu = run.done, run.cpu
        terminal.pump(_WINDOW_SECONDS)
        return run.done - done, run.cpu - cpu
    finally:
        terminal.process.send_signal(signal.SIGCONT)
