"""What can be wrong with a run that is watched: each is a typed, clear error, and never a crash."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rollouthub.errors import HubError, RunDirectoryError
from rollouthub.live.follow import RunFeed
from rollouthub.live.follow.attempt_columns import MOST
from rollouthub.store import open_writer
from tests.store.processes import make_read_only
from tests.store.records import RESOLVED, names_in, record, write


async def small_run(folder: Path) -> Path:
    await write(folder / "run", [record(f"g{number}-0", turns=()) for number in range(40)])
    return folder / "run"


def change(run: Path, statement: str) -> None:
    with closing(sqlite3.connect(run / "run.db")) as connection:
        connection.execute(statement)
        connection.commit()


def test_a_run_that_is_not_there_is_said(tmp_path: Path) -> None:
    with RunFeed(tmp_path / "none") as feed, pytest.raises(RunDirectoryError, match="no run directory"):
        feed.refresh()


async def test_a_run_deleted_while_it_is_open_is_said_and_what_was_read_stays(tmp_path: Path) -> None:
    run = await small_run(tmp_path)
    with RunFeed(run) as feed:
        feed.refresh()
        shutil.rmtree(run)
        for _ in range(2):
            with pytest.raises(RunDirectoryError, match="no run directory"):
                feed.refresh()
        assert (feed.counts.scored, feed.progress().done) == (40, 40)


async def test_another_run_in_its_place_is_read_from_its_beginning(tmp_path: Path) -> None:
    run = await small_run(tmp_path)
    with RunFeed(run) as feed:
        feed.refresh()
        found = feed.rollouts()
        assert (feed.counts.scored, len(found)) == (40, 40)
        shutil.rmtree(run)
        await write(run, [record("x-0")])
        assert feed.refresh()
        found.catch_up()
        assert (feed.counts.scored, found.page(0, 9), feed.columns.value("rollout_id", 0)) == (1, [0], "x-0")


async def test_a_newer_schema_is_said(tmp_path: Path) -> None:
    run = await small_run(tmp_path)
    change(run, "PRAGMA user_version = 9")
    with RunFeed(run) as feed, pytest.raises(RunDirectoryError, match="newer rollouthub"):
        feed.refresh()


@pytest.mark.parametrize("place", [0, 18, 100, 5000, 20_000])
async def test_a_damaged_database_is_said(place: int, tmp_path: Path) -> None:
    run = await small_run(tmp_path)
    with (run / "run.db").open("r+b") as file:
        file.seek(place)
        file.write(b"\xff\x00damaged" * 3000)
    with RunFeed(run) as feed, pytest.raises(HubError, match=r"run\.db|holds what"):
        feed.refresh()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rollouts SET reward = 'high' WHERE id = 3",
        "UPDATE rollouts SET outcome = x'ff00' WHERE id = 3",
        "UPDATE rollouts SET turns = 1.5 WHERE id = 3",
        "UPDATE rollouts SET finished_at = 9e999 WHERE id = 3",
        "UPDATE rollouts SET reward = -9e999 WHERE id = 3",
        "UPDATE rollouts SET outcome = 'brilliant' WHERE id = 3",
        "UPDATE rollouts SET stop = char(27) || ']0;owned' || char(7) WHERE id = 3",
        "UPDATE rollouts SET rollout_id = x'ff00' WHERE id = 3",
        "INSERT INTO live VALUES ('a', 'b', 'c', 0, 0, char(27) || '[2J', 0, 0, 0)",
        "INSERT INTO live VALUES (x'ff', 'b', 'c', 0, 0, 'model', 0, 0, 0)",
        "INSERT INTO live VALUES ('a', 'b', 'c', 0, 0, 'model', 'x', 0, 0)",
        "INSERT INTO live VALUES ('a', 'b', 'c', 0, 0, 'model', 0, 0, 9e999)",
        "UPDATE rollouts SET effective = 4000 WHERE id = 3",
        "DELETE FROM meta WHERE key = 'run_id'",
        "UPDATE meta SET value = '{' WHERE key = 'resolved'",
        "UPDATE meta SET value = '7' WHERE key = 'resolved'",
        "UPDATE meta SET value = '1e999' WHERE key = 'created_at'",
        "INSERT OR REPLACE INTO meta VALUES ('finished_at', '\"soon\"')",
        "INSERT OR REPLACE INTO meta VALUES ('planned', '-1')",
    ],
)
async def test_values_that_the_writer_never_writes_are_said(statement: str, tmp_path: Path) -> None:
    run = await small_run(tmp_path)
    change(run, statement)
    with RunFeed(run) as feed:
        for _ in range(2):
            with pytest.raises(RunDirectoryError, match="does not write"):
                feed.refresh()


async def test_a_run_on_a_read_only_file_system_is_watched(small_disk: Path) -> None:
    run = await small_run(small_disk)
    make_read_only(small_disk)
    with RunFeed(run) as feed:
        feed.refresh()
        assert feed.counts.scored == 40


async def test_watching_writes_nothing_into_the_directory(tmp_path: Path) -> None:
    run = await small_run(tmp_path)
    before = names_in(run)
    with RunFeed(run) as feed:
        feed.refresh()
    assert names_in(run) == before


async def test_a_run_that_dies_is_said_to_be_dead(tmp_path: Path) -> None:
    async with open_writer(tmp_path / "run", resolved=RESOLVED, given="", resume=False) as writer:
        await writer.add(record("a-0"))
        await writer.flush()
        shutil.copytree(tmp_path / "run", tmp_path / "copy")  # what a killed writer leaves
        with RunFeed(tmp_path / "copy") as feed:
            feed.refresh()
            assert (feed.info.status, feed.counts.scored, feed.progress().eta_seconds) == ("dead", 1, None)


async def test_a_record_that_is_damaged_or_gone_is_said(tmp_path: Path) -> None:
    run = await small_run(tmp_path)
    with RunFeed(run) as feed:
        feed.refresh()
        assert [rollout.rollout_id for rollout in feed.records([2, 0])] == ["g2-0", "g0-0"]
        change(run, "UPDATE rollouts SET body = '{}' WHERE id = 1")
        with pytest.raises(RunDirectoryError, match="does not write"):
            list(feed.records([0]))
        change(run, "DELETE FROM rollouts WHERE id = 1")
        with pytest.raises(RunDirectoryError, match="is gone"):
            list(feed.records([0]))


async def test_counts_beyond_all_bounds_are_held_at_one(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record(f"g{number}-0") for number in range(3)])
    change(tmp_path / "run", "UPDATE rollouts SET output_tokens = 9223372036854775807, turns = -9223372036854775808")
    with RunFeed(tmp_path / "run") as feed:
        feed.refresh()
        assert feed.columns.value("output_tokens", 0) == MOST
        assert feed.columns.value("turns", 0) == -MOST
        assert [feed.environments.line(0).output_tokens, feed.counts.output_tokens] == [3 * MOST] * 2
