"""Leaving a screen while it is still at something: nothing of it goes on, and nothing is taken from under it."""

import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from textual.events import Key
from textual.screen import Screen

from rollouthub.errors import StoreError
from rollouthub.live.steering.watched_run import WatchedRun
from tests.store.records import record, write
from tests.tui.walking import settled, walking


class Stuck(Screen[None]):
    """Never has done with a key until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.is_let_go = anyio.Event()

    async def on_key(self) -> None:
        """Take as long as that."""
        await self.is_let_go.wait()


class Waiting(Screen[None]):
    """Waits for something to be read, as screens do."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read, self.goes_on = anyio.Event(), False

    def on_mount(self) -> None:
        """Begin."""
        self.run_worker(self._wait)

    async def _wait(self) -> None:
        await self.is_read.wait()
        self.goes_on = True


async def test_what_a_screen_waits_for_is_not_shown_while_the_screen_is_taken_away(tmp_path: Path) -> None:
    async with walking(tmp_path) as pilot:
        screen = Waiting()
        await pilot.app.push_screen(screen)
        pilot.app.pop_screen()
        screen.is_read.set()
        await settled(pilot)
        assert not screen.goes_on


async def test_the_key_that_leaves_is_obeyed_whatever_was_typed_before_it(tmp_path: Path) -> None:
    async with walking(tmp_path) as pilot:
        screen = Stuck()
        await pilot.app.push_screen(screen)
        for key in ("j", "k", "ctrl+q"):
            pilot.app.post_message(Key(key, None))
        with anyio.fail_after(10):
            while pilot.app.return_code is None:
                await anyio.lowlevel.checkpoint()
        screen.is_let_go.set()


async def test_a_run_that_is_left_while_it_is_read_is_closed_only_then(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("g1-0"), record("g2-0")])
    run = WatchedRun(tmp_path / "run", {})
    has_begun, is_left = threading.Event(), threading.Event()

    def read() -> list[str]:
        rows = run.feed.reader.summaries()
        found = [next(rows).rollout_id]
        has_begun.set()
        assert is_left.wait(5)
        return [*found, *(row.rollout_id for row in rows)]

    async def read_beside() -> None:
        found.extend(await run.beside(read))

    found: list[str] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(read_beside)
            await anyio.to_thread.run_sync(has_begun.wait, 5)
            run.close()
            is_left.set()
    assert found == ["g1-0", "g2-0"]
    with pytest.raises(StoreError, match="open it again"):
        await run.beside(read)
