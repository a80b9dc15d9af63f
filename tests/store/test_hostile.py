"""Databases that somebody else made: they neither run SQL of their own nor keep their reader; runs are their user's."""

import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from rollouthub.errors import RunDirectoryError
from rollouthub.live.follow import RunFeed
from rollouthub.live.follow.row_reader import RowReader
from rollouthub.messages import digest_of
from rollouthub.store import open_run
from rollouthub.store.media import media_name
from rollouthub.store.run_search import find_runs
from tests.store.records import record, write

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
OWN_FILES = ("run.toml", "resolved.json", "run.lock")
STRANGE = {
    "a view": f"""ALTER TABLE rollouts RENAME TO kept;
        CREATE VIEW rollouts AS {ENDLESS} SELECT kept.* FROM n JOIN kept;""",
    "a view of the metadata": f"""ALTER TABLE meta RENAME TO kept;
        CREATE VIEW meta AS {ENDLESS} SELECT printf('%d', i) AS key, '' AS value FROM n;""",
    "a virtual table": "DROP TABLE tools; CREATE VIRTUAL TABLE tools USING fts5(digest, definitions);",
    "a computed column": "ALTER TABLE live ADD COLUMN x AS (hex(zeroblob(300000000)));",
    "a trigger": "CREATE TRIGGER t AFTER UPDATE ON meta BEGIN DELETE FROM rollouts; END;",
}


@pytest.mark.parametrize("script", STRANGE.values(), ids=STRANGE)
async def test_what_no_run_has_is_not_read(tmp_path: Path, script: str) -> None:
    await write(tmp_path / "strange", [record("g-0")])
    await write(tmp_path / "neighbour", [record("g-0")])
    with closing(sqlite3.connect(tmp_path / "strange" / "run.db")) as connection:
        connection.executescript(script)
    with pytest.raises(RunDirectoryError, match="holds views, triggers or computed columns"):
        open_run(tmp_path / "strange").__enter__()
    with pytest.raises(RunDirectoryError, match="holds views"):
        await write(tmp_path / "strange", [], resume=True)
    assert [run.directory.name for run in find_runs(tmp_path)] == ["neighbour", "strange"]


def interior_page(size: int, child: int) -> bytes:
    """A page of a table whose forty children are all the same page."""
    cells = [child.to_bytes(4) + bytes([key]) for key in range(40)]
    start = size - 5 * len(cells)
    head = b"\x05\0\0" + len(cells).to_bytes(2) + start.to_bytes(2) + b"\0" + child.to_bytes(4)
    pointers = b"".join((start + 5 * place).to_bytes(2) for place in range(len(cells)))
    return (head + pointers).ljust(start, b"\0") + b"".join(cells)


async def test_a_small_file_with_endless_rows_is_given_up(tmp_path: Path) -> None:
    await write(tmp_path, [record("g-0")])
    database = tmp_path / "run.db"
    with closing(sqlite3.connect(database)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'rollouts'").fetchone()
    pages = bytearray(database.read_bytes())
    count = len(pages) // size
    leaf = bytes(pages[(root - 1) * size : root * size])
    levels = 12  # 40 ** 12 rows
    below = [*(interior_page(size, count + level + 2) for level in range(levels)), leaf]
    pages[(root - 1) * size : root * size] = interior_page(size, count + 1)
    pages += b"".join(below)
    pages[28:32] = (count + len(below)).to_bytes(4)
    database.write_bytes(pages)
    started = time.process_time()
    with open_run(tmp_path) as run, pytest.raises(RunDirectoryError, match="is given up: reading it goes on"):
        run.totals()
    assert time.process_time() - started < 20


async def test_what_a_run_holds_is_its_users_alone(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir(mode=0o755)
    for directory, mode in ((tmp_path / "new" / "run", 0o700), (there, 0o755)):
        await write(directory, [record("g-0")])
        assert stat.S_IMODE(directory.stat().st_mode) == mode
        assert stat.S_IMODE((directory / "run.db").stat().st_mode) == 0o600
        assert {stat.S_IMODE((directory / name).stat().st_mode) for name in ("logs", "media")} == {0o700}
        assert {stat.S_IMODE((directory / name).stat().st_mode) for name in OWN_FILES} == {0o600}


@pytest.mark.parametrize("name", [*OWN_FILES, "resolved.json.new", ".resolved.json.partial"])
async def test_a_link_in_the_place_of_a_run_s_file_is_not_written_through(tmp_path: Path, name: str) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(kept)
    if name == "run.lock":
        with pytest.raises(RunDirectoryError, match="cannot be written"):
            await write(tmp_path / "run", [record("g-0")])
    else:
        await write(tmp_path / "run", [record("g-0")])
    assert kept.read_text() == "mine"


@pytest.mark.parametrize("planted", ["link", "pipe", "folder", "altered", "endless"])
async def test_what_lies_in_the_place_of_a_medium_is_not_read(tmp_path: Path, planted: str) -> None:
    await write(tmp_path / "run", [record("g-0")])
    secret = tmp_path / "id_rsa"
    secret.write_bytes(b"a key")
    digest = digest_of(b"a key")
    place = tmp_path / "run" / "media" / media_name(digest)
    match planted:
        case "link":
            place.symlink_to(secret)
        case "pipe":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
        case "altered":
            place.write_bytes(b"another key")
        case _:
            place.touch()
            os.truncate(place, 1 << 40)
    with (
        open_run(tmp_path / "run") as run,
        anyio.fail_after(5),
        pytest.raises(RunDirectoryError, match="medium sha256:"),
    ):
        await anyio.to_thread.run_sync(run.media, digest, abandon_on_cancel=True)


async def test_text_that_is_no_utf_8_is_said_to_be_damage(tmp_path: Path) -> None:
    await write(tmp_path, [record("g-0")])
    with closing(sqlite3.connect(tmp_path / "run.db")) as connection, connection:
        connection.execute("UPDATE turns SET body = CAST(x'7b22ff227d' AS TEXT)")
    with open_run(tmp_path) as reader, pytest.raises(RunDirectoryError, match="damaged or no database"):
        reader.rollout("g-0")


async def test_row_ids_that_leave_no_numbers_for_turns_are_refused(tmp_path: Path) -> None:
    await write(tmp_path, [record("g-0")])
    with closing(sqlite3.connect(tmp_path / "run.db")) as connection, connection:
        connection.execute("UPDATE rollouts SET id = ?", (2**43 - 1,))
    with pytest.raises(RunDirectoryError, match="numbers its rollouts as no run"):
        open_run(tmp_path).__enter__()


async def test_of_countless_problems_of_a_record_only_the_number_is_told(tmp_path: Path) -> None:
    await write(tmp_path, [record("g-0")])
    with closing(sqlite3.connect(tmp_path / "run.db")) as connection, connection:
        connection.execute("UPDATE turns SET body = json_object('tool_calls', json(?))", (f"[{'{},' * 2000}{{}}]",))
    with open_run(tmp_path) as reader, pytest.raises(RunDirectoryError, match=r"[\d,]{6} fields are not valid") as told:
        reader.rollout("g-0")
    assert len(str(told.value)) < 1000
    with RunFeed(tmp_path) as feed:
        feed.refresh()
        with pytest.raises(RunDirectoryError, match=r"[\d,]{6} fields are not valid") as told:
            list(feed.records([0]))
        (row_id,) = feed.columns.ids
    assert len(str(told.value)) < 1000
    with pytest.raises(RunDirectoryError, match=r"[\d,]{6} fields are not valid") as told:
        RowReader(tmp_path).ending(row_id, 3)
    assert len(str(told.value)) < 1000
