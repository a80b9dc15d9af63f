"""Measures the time until something is visible: after starting the program, and on opening large runs and long
rollouts.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rollouthub.bench.large_runs import MARK, multiply, short_turns, wordy_turns, write_long
from rollouthub.bench.real_runs import HUB, play_out
from rollouthub.errors import HubError
from rollouthub.event_loop import run_async
from rollouthub_tui.bench.paint_time import Painting, press
from rollouthub_tui.bench.terminal import Terminal

_SEED_ROLLOUTS = 160
_MOST_SECONDS = 60.0
_BETWEEN_SCREENS = ("j", "k", "G", "g", "\x04", "\x15", "s", "S")


@dataclass(frozen=True, slots=True)
class Opening:
    """Seconds from a request until its content is first painted."""

    start: float
    """From starting `hub watch` to the list of runs."""
    figures: float
    """From the key that opens the large run to its figures."""
    rows: float
    """From that key to the run's rollouts, if their key is pressed right after the figures appear."""
    wordy: float
    """From the key that opens the rollout with the long transcript to its first words."""
    turns: float
    """From the key that opens the rollout with many turns to its first words."""
    rollouts: int
    memory_bytes: int
    """Peak memory with the large run open, in bytes."""


def measure_opening(
    scratch: Path, environ: Mapping[str, str], rollouts: int, say: Callable[[str], None], seen: Painting
) -> Opening:
    """Measure opening the large run and the long rollouts; `seen` collects the keys pressed in the large run."""
    say(f"writing a run of {rollouts:,} rollouts …")
    many = scratch / "many" / "runs" / "many"
    many.parent.mkdir(parents=True)
    play_out(many, environ, _SEED_ROLLOUTS)
    multiply(many, rollouts)
    say("opening it …")
    start, figures, rows, memory = _open_run(many, environ, seen)
    say("opening long rollouts …")
    wordy, turns = scratch / "wordy" / "runs" / "wordy", scratch / "turns" / "runs" / "turns"
    run_async(write_long, wordy, list(wordy_turns(2_000_000)))
    run_async(write_long, turns, list(short_turns(5_000)))
    return Opening(start, figures, rows, _open_rollout(wordy, environ), _open_rollout(turns, environ), rollouts, memory)


def _open_run(directory: Path, environ: Mapping[str, str], seen: Painting) -> tuple[float, float, float, int]:
    folder = directory.parents[1]
    with Terminal([*HUB, "watch"], folder, environ) as terminal:
        listed = _awaited(terminal, directory.name, 0)
        start = listed - terminal.started
        terminal.pump(1.0)  # the list is read on, and measured
        place = len(terminal.output)
        opened = terminal.press("\r")
        figures = _awaited(terminal, r"mean reward.*\d\.\d{3}", place) - opened
        terminal.press("2")
        rows = _awaited(terminal, r"many/\d{6}", place) - opened
        terminal.pump(1.0)
        for key in _BETWEEN_SCREENS:
            press(terminal, "rollouts of many", key, seen)
        return start, figures, rows, terminal.memory()


def _open_rollout(directory: Path, environ: Mapping[str, str]) -> float:
    with Terminal([*HUB, "watch", str(directory)], directory.parents[1], environ) as terminal:
        _awaited(terminal, "%", 0)
        terminal.pump(1.0)
        place = len(terminal.output)
        terminal.press("2")
        _awaited(terminal, "long", place)
        terminal.pump(0.5)
        place = len(terminal.output)
        opened = terminal.press("\r")
        return _awaited(terminal, MARK, place) - opened


def _awaited(terminal: Terminal, pattern: str, place: int) -> float:
    at = terminal.wait_for(pattern, _MOST_SECONDS, place)
    if at is None or math.isnan(at):
        raise HubError(f"`hub watch` did not show {pattern!r}: {terminal.words(place)[-2000:]}")
    return min(at, time.perf_counter())
