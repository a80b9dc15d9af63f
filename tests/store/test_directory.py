"""Run directories that cannot be used as asked, and disks that fill up: clear errors, nothing lost."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from rollouthub.errors import HubError, RunDirectoryError, StoreError
from rollouthub.store import open_run, open_writer
from tests.store.records import RESOLVED, conversation, record, write


async def attempt_to_open(directory: Path, *, resume: bool) -> str:
    with pytest.raises(RunDirectoryError) as refused:
        async with open_writer(directory, resolved=RESOLVED, given="", resume=resume):
            raise AssertionError("opened")
    return str(refused.value)


async def test_a_directory_with_a_run_is_not_overwritten(tmp_path: Path) -> None:
    await write(tmp_path, [record("g-0")])
    assert "--resume" in await attempt_to_open(tmp_path, resume=False)
    with open_run(tmp_path) as run:
        assert len(list(run.rollouts())) == 1


async def test_a_second_writer_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False) as writer:
        message = await attempt_to_open(tmp_path, resume=True)
        assert f"process {os.getpid()} on " in message
        assert " since " in message
        await writer.add(record("g-0"))
    await write(tmp_path, [record("g-1")], resume=True)
    with open_run(tmp_path) as run:
        assert len(list(run.rollouts())) == 2


async def test_a_newer_schema_is_refused_and_both_versions_are_named(tmp_path: Path) -> None:
    await write(tmp_path, [record("g-0")])
    with closing(sqlite3.connect(tmp_path / "run.db")) as connection:
        connection.execute("PRAGMA user_version = 7")
    assert "schema 7" in await attempt_to_open(tmp_path, resume=True)
    with pytest.raises(RunDirectoryError, match=r"schema 7.* up to 1"), open_run(tmp_path):
        pass


async def test_resuming_a_directory_without_a_run_starts_one(tmp_path: Path) -> None:
    await write(tmp_path / "new", [record("g-0")], resume=True)
    with open_run(tmp_path / "new") as run:
        assert len(list(run.rollouts())) == 1


@pytest.mark.parametrize("left", ["nothing", "empty", "no_tables", "no_meta"])
async def test_what_a_writer_left_that_died_while_it_created_a_run_is_started_anew(tmp_path: Path, left: str) -> None:
    (tmp_path / "run.toml").write_text("half")
    (tmp_path / "run.lock").write_text("")
    if left == "empty":
        (tmp_path / "run.db").touch()
    elif left != "nothing":
        with closing(sqlite3.connect(tmp_path / "run.db")) as connection:
            connection.execute(f"PRAGMA application_id = {0x656E7668}")
            if left == "no_meta":
                connection.execute("CREATE TABLE turns (id)")
    await write(tmp_path, [record("g-0")], resume=True)
    with open_run(tmp_path) as run:
        assert run.info.status == "finished"
        assert len(list(run.rollouts())) == 1


@pytest.mark.parametrize("content", [b"not a database at all, only text" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_file_that_is_no_database_is_never_overwritten(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.db").write_bytes(content)
    assert "run.db" in await attempt_to_open(tmp_path, resume=True)
    with pytest.raises(RunDirectoryError, match="damaged or no database"), open_run(tmp_path):
        pass
    assert (tmp_path / "run.db").read_bytes() == content


async def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "run.db")) as connection:
        connection.execute("CREATE TABLE photographs (id)")
    assert "not the database of a run" in await attempt_to_open(tmp_path, resume=True)
    with pytest.raises(RunDirectoryError, match="not the database of a run"), open_run(tmp_path):
        pass


async def test_a_damaged_database_says_what_to_do(tmp_path: Path) -> None:
    await write(tmp_path, [record(f"g{number}-0") for number in range(200)])
    with (tmp_path / "run.db").open("r+b") as file:
        rest = file.seek(0, 2) - 16384
        file.seek(16384)
        file.write(b"\xaa" * rest)
    with pytest.raises(RunDirectoryError, match="damaged"), open_run(tmp_path) as run:
        list(run.rollouts())


@pytest.mark.parametrize("directory", ["missing", "empty"])
async def test_a_missing_run_is_said_to_be_missing(tmp_path: Path, directory: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunDirectoryError, match="hub runs"), open_run(tmp_path / directory):
        pass


async def test_a_file_is_no_run_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is no folder" in await attempt_to_open(tmp_path / "file", resume=False)
    assert "is no folder" in await attempt_to_open(tmp_path / "file" / "run", resume=True)


async def test_a_full_disk_stops_the_run_and_loses_nothing_committed(small_disk: Path) -> None:
    directory = small_disk / "run"
    committed: list[str] = []
    with pytest.raises(StoreError) as full:
        async with open_writer(
            directory,
            resolved=RESOLVED,
            given="",
            resume=False,
            on_commit=lambda new: committed.extend(rollout.rollout_id for rollout in new),
        ) as writer:
            for number in range(10_000):
                await writer.add(record(f"g{number}-0", turns=conversation(3, answer_tokens=500)))
                if number % 10 == 0:
                    await writer.flush()
    assert "MiB are free" in str(full.value)
    assert "--resume" in str(full.value)
    assert committed

    with open_run(directory) as run:
        assert [rollout.rollout_id for rollout in run.rollouts()] == committed
        assert run.info.status in ("failed", "dead")


async def test_a_run_goes_on_where_the_disk_was_full_once_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    directory = small_disk / "run"
    await write(directory, [record("first-0")])
    ballast.write_bytes(bytes(2_300_000))
    with pytest.raises(StoreError):
        await write(
            directory, [record(f"g{n}-0", turns=conversation(3, answer_tokens=2000)) for n in range(100)], resume=True
        )
    ballast.unlink()
    await write(directory, [record("last-0")], resume=True)
    with open_run(directory) as run:
        kept = [rollout.rollout_id for rollout in run.rollouts()]
    assert kept[0] == "first-0"
    assert kept[-1] == "last-0"
    assert len(set(kept)) == len(kept)


async def test_a_disk_full_from_the_start_is_a_store_error(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with ballast.open("wb") as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(65536))
            file.flush()
    with pytest.raises(HubError, match="disk is full"):
        await write(small_disk / "run", [])


async def test_the_failure_reaches_everyone_who_adds(small_disk: Path) -> None:
    refused: list[int] = []

    async def add_for_ever(number: int) -> None:
        try:
            for sample in range(10_000):
                await writer.add(record(f"g{number}-{sample}", turns=conversation(3, answer_tokens=500)))
        except StoreError:
            refused.append(number)

    with anyio.fail_after(60), pytest.raises(StoreError):
        async with (
            open_writer(small_disk / "run", resolved=RESOLVED, given="", resume=False) as writer,
            anyio.create_task_group() as adders,
        ):
            for number in range(4):
                adders.start_soon(add_for_ever, number)
    assert sorted(refused) == [0, 1, 2, 3]
