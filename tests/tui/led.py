"""A screen alone, in an app that notes where it leads."""

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static
from textual.worker import WorkerCancelled

from rollouthub.live.follow import RolloutList
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub_tui.settings import Settings


class Led(App[None]):
    """The app, as a screen sees it; it goes nowhere."""

    def __init__(
        self, screen: Screen[None], roots: Sequence[Path], environ: Mapping[str, str], clock: Callable[[], float]
    ) -> None:
        super().__init__()
        self.roots, self.environ, self.clock = tuple(roots), environ, clock
        self.settings = Settings()
        self.led: list[tuple[Any, ...]] = []
        """Where it was led."""
        self._first = screen

    def on_mount(self) -> None:
        """Show the screen."""
        self.push_screen(self._first)

    def open_run(self, directory: Path) -> None:
        self.led.append(("run", directory))

    def open_rollout(self, run: WatchedRun, rollout_id: str, attempt: int, among: RolloutList | None = None) -> None:
        self.led.append(("rollout", run.directory, rollout_id, attempt))

    def open_pair(self, run: WatchedRun, first: int, second: int) -> None:
        self.led.append(("pair", first, second))

    def open_comparison(self, first: Path, second: Path) -> None:
        self.led.append(("comparison", first, second))


@asynccontextmanager
async def led(
    screen: Screen[None],
    *,
    roots: Sequence[Path] = (),
    environ: Mapping[str, str] | None = None,
    size: tuple[int, int] = (80, 24),
    clock: Callable[[], float] = time.time,
) -> AsyncGenerator[tuple[Pilot[None], list[tuple[Any, ...]]]]:
    """The screen, until the block is left, and where it led."""
    app = Led(screen, roots, environ or {"XDG_RUNTIME_DIR": "/nonexistent"}, clock)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        yield pilot, app.led


async def settle(pilot: Pilot[None]) -> None:
    """Wait until everything that was asked for is there."""
    workers: Any = pilot.app.workers  # of whatever they give
    with anyio.fail_after(120):
        for _ in range(3):
            await pilot.pause()
            for worker in list(workers):
                with suppress(WorkerCancelled):  # a newer one took its place
                    await worker.wait()
        await pilot.pause()


def lines(pilot: Pilot[None]) -> list[str]:
    """What can be read on the screen."""
    compositor: Any = getattr(pilot.app.screen, "_compositor")  # noqa: B009  (what screenshots are made of)
    return [strip.text.rstrip() for strip in compositor.render_strips()]


def shown(pilot: Pilot[None]) -> str:
    """The same as one text."""
    return "\n".join(lines(pilot))


def told(pilot: Pilot[None], name: str) -> str:
    """What one of the screen's texts says, whole."""
    return str(pilot.app.screen.query_one(f".{name}", Static).content)


def notes(pilot: Pilot[None]) -> list[str]:
    """What it told the person who looks."""
    found: Any = getattr(pilot.app, "_notifications")  # noqa: B009  (they have no public name)
    return [note.message for note in found]
