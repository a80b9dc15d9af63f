"""What can be wrong with a run that is watched: it is said on the screen, with what to do, and the app goes on."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.store.conftest import small_disk
from tests.store.processes import make_read_only
from tests.store.records import record, write
from tests.tui.made import finished_run
from tests.tui.test_hostile import check
from tests.tui.walking import Walker, go, lines, shows, until, walking

__all__ = ["small_disk"]


def newer(run: Path) -> None:
    """As another version leaves it."""
    with closing(sqlite3.connect(run / "run.db")) as connection, connection:
        connection.execute("PRAGMA user_version = 9")


def scribbled(run: Path) -> None:
    """Something was written over it."""
    with (run / "run.db").open("r+b") as file:
        file.seek(100)
        file.write(b"\xff\x00damaged\x1b]0;owned\x07" * 900)


def truncated(run: Path) -> None:
    """Only its beginning is left."""
    with (run / "run.db").open("r+b") as file:
        file.truncate(5000)


def deleted(run: Path) -> None:
    """All of it is gone."""
    shutil.rmtree(run)


WAYS = ((newer, "newer rollouthub"), (scribbled, "damaged"), (truncated, "damaged"), (deleted, "no run"))


def told(pilot: Walker, words: str) -> bool:
    """Whether words are on the screen, wherever its lines end."""
    return words in " ".join(" ".join(lines(pilot)).split())


async def test_a_run_that_cannot_be_read_is_said_and_the_list_stays(tmp_path: Path) -> None:
    for damage, words in WAYS[:3]:
        run = await finished_run(tmp_path / "runs" / damage.__name__)
        damage(run)
        async with walking(tmp_path, roots=(tmp_path / "runs",), run=run) as pilot:
            await until(pilot, lambda words=words: told(pilot, words))
            check(pilot, damage.__name__)
            await pilot.press("escape")
            await until(pilot, lambda name=damage.__name__: shows(pilot, name))
            assert pilot.app.is_running
        shutil.rmtree(run)


@pytest.mark.parametrize(("damage", "words"), WAYS[1:], ids=lambda way: getattr(way, "__name__", ""))
async def test_a_run_that_breaks_while_it_is_open_is_said_and_what_was_read_stays(
    damage: "object", words: str, tmp_path: Path
) -> None:
    run = await finished_run(tmp_path / "runs" / "run")
    async with walking(tmp_path, roots=(tmp_path / "runs",), run=run) as pilot:
        await go(pilot, "2", to="arithmetic")
        assert callable(damage)
        damage(run)
        await until(pilot, lambda: told(pilot, words))
        assert shows(pilot, "arithmetic")
        for key in ("j", "enter", "escape", "3"):
            await pilot.press(key)
            await pilot.pause()
            check(pilot, key)
        assert pilot.app.is_running


async def test_a_run_on_a_read_only_file_system_is_watched(small_disk: Path, tmp_path: Path) -> None:
    await write(small_disk / "runs" / "run", [record(f"g{number}-0") for number in range(9)])
    make_read_only(small_disk)
    async with walking(tmp_path, roots=(small_disk / "runs",)) as pilot:
        await go(pilot, to="run")
        await go(pilot, "enter", "2", to="g3")
        await go(pilot, "enter", to="1 + 2?")
        check(pilot, "read-only")
