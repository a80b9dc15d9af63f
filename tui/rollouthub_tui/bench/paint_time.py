"""What painting costs `hub watch`: CPU time per frame, and time from a key to the first output, on a run's screens."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from rollouthub.bench.real_runs import HUB, PlayedRun, play
from rollouthub.errors import HubError
from rollouthub.statistics.quantiles import quantile
from rollouthub_tui.bench.terminal import Terminal

SCREENS = ("overview", "rollouts", "tasks", "machines")
"""Names of the panes in the order of their keys, 1 to 4."""
_KEYS: Mapping[str, Sequence[str]] = {
    "overview": ("2", "1"),
    "rollouts": ("j", "j", "k", "G", "g", "\x04", "\x15", "s", "S", "n"),
    "tasks": ("j", "j", "k", "G", "g"),
    "machines": ("1", "4"),
    "rollout": ("j", "k", "2", "3", "4", "1"),
}
_READY_SECONDS = 30.0


@dataclass
class Painting:
    """The measurements of one `hub watch` process."""

    frames: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Pane → CPU milliseconds for each frame, from the end of the frame before, without keys pressed."""
    keys: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Pane and key → milliseconds from the key press to the first bytes of output."""
    memory_bytes: int = 0
    cpu_share: float = 0.0
    """CPU time used, divided by the time that the process ran."""
    done: int = 0
    """Number of finished rollouts in the store at the end."""
    seconds: float = 0.0

    @property
    def all_frames(self) -> list[float]:
        """The CPU milliseconds of every frame."""
        return [value for values in self.frames.values() for value in values]

    @property
    def all_keys(self) -> list[float]:
        """The response milliseconds of every key."""
        return [value for values in self.keys.values() for value in values]


def p95(values: Sequence[float]) -> float:
    """The 95th percentile; NaN without values."""
    return quantile(sorted(values), 0.95) if values else math.nan


def measure_live(scratch: Path, environ: Mapping[str, str], rollouts: int, say: Callable[[str], None]) -> Painting:
    """Watch a live run, pane by pane, until it ends."""
    directory = scratch / "live"
    seen = Painting()
    say(f"watching a run of {rollouts:,} rollouts …")
    with (
        play(directory, environ, rollouts) as run,
        Terminal([*HUB, "watch", str(directory)], scratch, environ) as terminal,
    ):
        _ready(terminal)
        began, cpu = time.perf_counter(), terminal.cpu
        while not run.is_over and run.done < 0.97 * rollouts:
            _round(terminal, run, seen)
        seen.seconds = time.perf_counter() - began
        seen.cpu_share = (terminal.cpu - cpu) / seen.seconds
        seen.memory_bytes, seen.done = terminal.memory(), run.done
    return seen


def _round(terminal: Terminal, run: PlayedRun, seen: Painting) -> None:
    for number, screen in enumerate(SCREENS, 1):
        terminal.press(str(number))
        terminal.pump(0.6)
        _watch_frames(terminal, seen.frames.setdefault(screen, []), 2.0)
        for key in _KEYS[screen]:
            press(terminal, screen, key, seen)
        if screen == "rollouts":
            press(terminal, screen, "\r", seen)
            terminal.pump(0.4)
            for key in _KEYS["rollout"]:
                press(terminal, "rollout", key, seen)
            terminal.press("\x1b")
            terminal.pump(0.5)
        if run.is_over:
            return


def _watch_frames(terminal: Terminal, into: list[float], seconds: float) -> None:
    terminal.settle()
    first = len(terminal.bursts)
    terminal.pump(seconds)
    terminal.settle()
    frames = terminal.bursts[max(0, first - 1) :]
    into += [1e3 * (later.cpu - earlier.cpu) for earlier, later in pairwise(frames)]


def press(terminal: Terminal, screen: str, key: str, seen: Painting) -> None:
    """Press a key right after a frame, so that the next output is its effect, and wait for that output."""
    terminal.settle()
    pressed = terminal.press(key)
    painted = terminal.painted_after(pressed)
    if painted is None:
        raise HubError(f"`hub watch` painted nothing after {key!r} on {screen}: {terminal.words()[-1500:]}")
    seen.keys.setdefault(f"{screen} {_name(key)}", []).append(1e3 * (painted - pressed))


def _name(key: str) -> str:
    return {"\r": "enter", "\x1b": "escape", "\x04": "ctrl+d", "\x15": "ctrl+u"}.get(key, key)


def _ready(terminal: Terminal) -> None:
    if terminal.wait_for("%", _READY_SECONDS) is None:
        raise HubError(f"`hub watch` did not come up: {terminal.words()[-2000:]}")
    terminal.settle()
