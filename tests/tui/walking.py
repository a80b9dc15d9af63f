"""Walks through `hub watch` by its keys, in a terminal that is not there, at a time that stands still."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from textual.pilot import Pilot
from textual.strip import Strip
from textual.worker import WorkerCancelled

from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub_tui.app.app import WatchApp
from rollouthub_tui.app.themes import DARK, LIGHT
from rollouthub_tui.screens.steering_screen import SteeringScreen
from tests.tui.made import NOW
from tests.tui.snapshots import Album
from tests.tui.stage import Stage

NARROW, WIDE = (80, 24), (200, 60)
LOOKS = ((DARK.name, NARROW), (LIGHT.name, NARROW), (LIGHT.name, WIDE), (DARK.name, WIDE))

Walker = Pilot[None]


def home(folder: Path) -> Mapping[str, str]:
    """Surroundings without settings, and without hubs that play."""
    return {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "XDG_RUNTIME_DIR": str(folder / "runtime")}


@asynccontextmanager
async def walking(
    folder: Path,
    *,
    run: Path | None = None,
    roots: tuple[Path, ...] = (),
    size: tuple[int, int] = NARROW,
    now: float = NOW,
    reviews: bool = False,
) -> AsyncGenerator[Walker]:
    """`hub watch`, at home in a folder, until the block is left."""
    app = WatchApp(roots, home(folder), run=run, reviews=reviews, clock=lambda: now)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield pilot


async def settled(pilot: Walker) -> None:
    """Wait until everything that was asked for is there."""
    workers: Any = pilot.app.workers  # of whatever they give
    with anyio.fail_after(120):
        for _ in range(2):
            await pilot.pause()
            while isinstance(pilot.app, WatchApp | Stage) and not pilot.app.type_ahead.is_idle:
                await pilot.pause()
            # What asks a person something waits for an answer; what a newer look took the place of has ended, too.
            for worker in [worker for worker in workers if worker.group != "actions"]:
                with suppress(WorkerCancelled):
                    await worker.wait()
        await pilot.pause()


def strips(pilot: Walker) -> list[Strip]:
    """The lines on the screen, with their styles."""
    # What Textual's own screenshots are made of; it has no public name.
    compositor: Any = getattr(pilot.app.screen, "_compositor")  # noqa: B009
    return list(compositor.render_strips())


def lines(pilot: Walker) -> list[str]:
    """The words on the screen, line by line."""
    return [strip.text.rstrip() for strip in strips(pilot)]


def shows(pilot: Walker, words: str) -> bool:
    """Whether words are on one line of the screen."""
    return any(words in line for line in lines(pilot))


async def until(pilot: Walker, claim: Callable[[], object]) -> None:
    """Wait until something holds, as often as the screen changes."""
    with anyio.move_on_after(60):
        while not claim():
            await pilot.pause()
        return
    raise AssertionError("it never came to that; on the screen was:\n" + "\n".join(lines(pilot)))


async def go(pilot: Walker, *keys: str, to: str | None = None) -> None:
    """Press keys, and wait until words are on the screen, where some are told."""
    await pilot.press(*keys)
    if to is not None:
        await until(pilot, lambda: shows(pilot, to))
    await settled(pilot)


async def look(pilot: Walker, album: Album, name: str, wide: str = "") -> None:
    """Hold a screen against its pictures: in dark and light, narrow and wide; the wide ones have these words."""
    for theme, (columns, height) in LOOKS:
        pilot.app.theme = theme
        if pilot.app.size != (columns, height):
            await pilot.resize_terminal(columns, height)
        if columns == WIDE[0]:
            await until(pilot, lambda: shows(pilot, wide))
        await settled(pilot)
        album.look(pilot.app, f"{name}-{theme.rpartition('-')[2]}-{columns}x{height}")
    await pilot.resize_terminal(*NARROW)


def run_of(pilot: Walker) -> WatchedRun:
    """The run that is shown."""
    assert isinstance(pilot.app.screen, SteeringScreen)
    return pilot.app.screen.watched


def app_of(pilot: Walker) -> WatchApp:
    """The app."""
    assert isinstance(pilot.app, WatchApp)
    return pilot.app
