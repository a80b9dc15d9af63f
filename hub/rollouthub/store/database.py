"""The writing side of `run.db`: creates and resumes runs, and commits batches. Blocking; runs in threads."""

import errno
import json
import platform
import secrets
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock
from mcp_types import Tool
from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, to_json

from rollouthub.errors import HubError, RunDirectoryError
from rollouthub.rollout import Outcome, Rollout
from rollouthub.store.atomic_files import replace_file
from rollouthub.store.media import clear_partial_media, keep_media
from rollouthub.store.read_only_source import check_siblings
from rollouthub.store.record_rows import (
    EFFECTIVE,
    INSERT_ROLLOUT,
    INSERT_TURN,
    SEQ,
    UPSERT_LIVE,
    Row,
    live_row,
    mended,
    rollout_row,
    turn_rows,
)
from rollouthub.store.run_directories import DATABASE
from rollouthub.store.run_facts import LiveState
from rollouthub.store.run_lock import cannot_write, take_lock
from rollouthub.store.sql_schema import (
    APPLICATION_ID,
    MEDIA,
    SCHEMA,
    TABLES,
    check_schema,
    damaged,
    defend,
    lacks_suspect,
)
from rollouthub.store.waiting_members import WaitingMembers

_DONE = (Outcome.SCORED.value, Outcome.AGENT_FAILED.value)
"""Outcomes that settle a sample; a sample with any other is played again by `--resume`."""
_CHECKPOINT_PAGES = 4000
"""WAL pages (16 MB) between checkpoints, so that many changes to the pages of random ids are written back together."""
_WAL_BYTES = 64 * 2**20

Kept = tuple[Rollout, Mapping[str, bytes]]
"""A record and the media it refers to, by digest."""


@dataclass(slots=True)
class Batch:
    """The changes that one transaction writes."""

    rollouts: list[tuple[Rollout, Mapping[str, bytes]]] = field(
        default_factory=list[tuple[Rollout, Mapping[str, bytes]]]
    )
    tools: dict[str, Sequence[Tool]] = field(default_factory=dict[str, Sequence[Tool]])
    meta: dict[str, str] = field(default_factory=dict[str, str])
    live: dict[str, LiveState] = field(default_factory=dict[str, LiveState])
    resolved: dict[str, JsonValue] | None = None
    """The resolved request with which the run is resumed."""
    changes: Sequence[str] = ()
    """How that request differs from the previous one."""
    groups: list[Sequence[Rollout]] = field(default_factory=list[Sequence[Rollout]])
    """Group by group, the members of groups whose verdict has arrived, or failed with an error."""
    media: dict[str, bytes] = field(default_factory=dict[str, bytes])  # what judges of groups were shown, by digest


class RunDatabase:
    """A run's database, open for writing under the run's lock."""

    def __init__(self, directory: Path, connection: sqlite3.Connection, lock: FileLock, *, resumed: bool) -> None:
        self.directory, self.resumed = directory, resumed
        self._connection, self._lock = connection, lock
        meta = dict(connection.execute("SELECT key, value FROM meta"))
        self.run_id: str = meta["run_id"]
        self.resolved: dict[str, JsonValue] = json.loads(meta.get("created_with", meta["resolved"]))
        """The resolved request with which the run was created."""
        self.latest_resolved: dict[str, JsonValue] = json.loads(meta["resolved"])
        """The resolved request with which the run was last played."""
        self._row_id, self._seq = connection.execute(
            "SELECT coalesce(max(id), 0), coalesce(max(seq), 0) FROM rollouts"
        ).fetchone()
        self._live: set[str] = set()
        self._is_begun = False
        self.waiting = WaitingMembers(connection)
        self.done: set[str] = set()
        """Rollout ids of the samples that were settled when the run was opened."""
        self.following: dict[str, int] = {}
        """The number of a sample's next attempt, where it is not 1 or the sample is open."""
        for rollout_id, latest, is_done in connection.execute(
            "SELECT rollout_id, max(attempt), max(effective AND outcome IN (?, ?)) FROM rollouts GROUP BY rollout_id",
            _DONE,
        ):
            if is_done:
                self.done.add(rollout_id)
            if latest or not is_done:
                self.following[rollout_id] = latest + 1
        self.done.update(self.waiting.records)

    def begin(self) -> None:
        """Mark the run as running. Before this call, the directory of a resumed run is unchanged.

        Raises:
            sqlite3.Error: the database cannot be written.
        """
        if self._is_begun:
            return
        connection = self._connection
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            if lacks_suspect(connection):
                connection.execute("ALTER TABLE rollouts ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0")
            connection.execute("DELETE FROM live")
            connection.execute("DELETE FROM meta WHERE key IN ('finished_at', 'stopped')")
            # Makes the WAL exist as soon as the run has begun, so that viewers find a live database.
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('status', 'running')")
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        if self.resumed:
            clear_partial_media(self.directory / MEDIA)
        self._is_begun = True

    def commit(self, batch: Batch) -> list[Rollout]:
        """Write a batch in one transaction; returns the records that were not stored before.

        Raises:
            sqlite3.Error: nothing of the batch was written.
        """
        self.begin()
        for media in (batch.media, *(media for _, media in batch.rollouts)):
            keep_media(self.directory / MEDIA, media)
        if batch.resolved is not None:
            _write_resolved(self.directory, batch.resolved)
        row_id, seq = self._row_id, self._seq
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            added = self._write(batch)
            connection.execute("COMMIT")
        except BaseException:
            self._row_id, self._seq = row_id, seq
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
                self.waiting.rolled_back()
            raise
        gone = _ended(batch)
        self._live.difference_update(gone)
        self._live.update(batch.live)
        return added

    def _write(self, batch: Batch) -> list[Rollout]:
        connection = self._connection
        added: list[Rollout] = []
        turns: list[Row] = []
        for rollout, _ in batch.rollouts:
            if rollout.awaits_group:
                self._keep_waiting(rollout)
            else:
                self._add(rollout, added, turns)
        for members in batch.groups:
            for rollout in members:
                self._add(rollout, added, turns)
            is_judged = any(rollout.score is not None for rollout in members)
            self.waiting.conclude(members[0].group_id, [each.rollout_id for each in members], is_judged=is_judged)
        connection.executemany(INSERT_TURN, turns)
        for digest, tools in batch.tools.items():
            definitions = to_json([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])
            connection.execute("INSERT OR IGNORE INTO tools VALUES (?, ?)", (digest, definitions.decode()))
        if batch.resolved is not None:
            # What it was created with stays: changes are judged against that.
            connection.execute(
                "INSERT OR IGNORE INTO meta SELECT 'created_with', value FROM meta WHERE key = 'resolved'"
            )
            connection.execute("UPDATE meta SET value = ? WHERE key = 'resolved'", (to_json(batch.resolved).decode(),))
            self._note_resumption(batch.changes)
        if batch.meta:
            connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(batch.meta.items()))
        if self._live:
            ended = [(rollout_id,) for rollout_id in _ended(batch) if rollout_id in self._live]
            connection.executemany("DELETE FROM live WHERE rollout_id = ?", ended)
        if batch.live:
            connection.executemany(UPSERT_LIVE, [live_row(state) for state in batch.live.values()])
        return added

    def _add(self, rollout: Rollout, added: list[Rollout], turns: list[Row]) -> None:
        """Insert a record unless it is stored; if inserted, append it to `added`, its turns' rows to `turns`."""
        try:
            rows = self._rows(rollout)
        except (PydanticSerializationError, UnicodeEncodeError):
            rollout = mended(rollout)
            rows = self._rows(rollout)
        if self._insert(rollout, rows[0]):
            turns.extend(rows[1])
            added.append(rollout)

    def _keep_waiting(self, rollout: Rollout) -> None:
        try:
            body = rollout.model_dump_json()
        except (PydanticSerializationError, UnicodeEncodeError):
            body = mended(rollout).model_dump_json()
        self.waiting.keep(rollout, body)

    def _note_resumption(self, changes: Sequence[str]) -> None:
        row = self._connection.execute("SELECT value FROM meta WHERE key = 'resumptions'").fetchone()
        entry = {
            "at": time.time(),
            "host": platform.node(),
            "hub_version": version("rollouthub"),
            "changes": list(changes),
        }
        entries = [*(json.loads(row[0]) if row else ()), entry]
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES ('resumptions', ?)", (json.dumps(entries),))

    def _rows(self, rollout: Rollout) -> tuple[list[Any], list[Row]]:
        row = rollout_row(rollout, self._row_id + 1, self._seq + 1, 1)
        return row, turn_rows(rollout.turns, self._row_id + 1)

    def _insert(self, rollout: Rollout, row: list[Any]) -> bool:
        """Insert an attempt's row; False if this attempt is already stored."""
        # Nearly every record is the first of its sample; the indexes say so when it is not.
        if self._connection.execute(INSERT_ROLLOUT, row).rowcount != 1:
            kept = self._connection.execute(
                "SELECT attempt, effective, outcome, id FROM rollouts WHERE rollout_id = ?", (rollout.rollout_id,)
            ).fetchall()
            if any(attempt == rollout.attempt for attempt, *_ in kept):
                return False
            attempt, _, outcome, row_id = next(other for other in kept if other[1])
            is_decided = outcome in _DONE
            wins = not is_decided and (rollout.outcome.value in _DONE or rollout.attempt > attempt)
            if wins:
                self._seq += 1
                self._connection.execute("UPDATE rollouts SET effective = 0, seq = ? WHERE id = ?", (self._seq, row_id))
            row[SEQ], row[EFFECTIVE] = self._seq + 1, int(wins)
            inserted = self._connection.execute(INSERT_ROLLOUT, row).rowcount
            assert inserted == 1, "one row of a sample is effective, and this attempt is not among them"
        self._row_id += 1
        self._seq += 1
        return True

    def close(self, status: str) -> None:
        """End the run and leave a single file that can be read on a read-only mount; the lock is released in any case.

        The end time of a run whose resumption was refused is not changed.
        """
        connection = self._connection
        try:
            if not self._is_begun:
                return
            connection.execute("BEGIN IMMEDIATE")
            ending = {"status": status, "finished_at": json.dumps(time.time())}
            connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(ending.items()))
            connection.execute("DELETE FROM live")
            connection.execute("COMMIT")
            # A viewer that is reading at this moment may keep the WAL in place; readers cope, see source.py.
            connection.execute("PRAGMA busy_timeout = 1000")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            with suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA journal_mode = DELETE")
        finally:
            connection.close()
            self._lock.release()


def _ended(batch: Batch) -> list[str]:
    """The rollout ids of the samples that are no longer in flight after a batch."""
    alone = [rollout.rollout_id for rollout, _ in batch.rollouts if not rollout.awaits_group]
    return alone + [rollout.rollout_id for members in batch.groups for rollout in members]


def open_database(directory: Path, *, resolved: dict[str, JsonValue], given: str, resume: bool) -> RunDatabase:
    """Take the run's lock, and create or resume the run.

    Raises:
        RunDirectoryError: the directory cannot be used as asked.
        StoreError: the disk is full.
    """
    path = directory / DATABASE
    if not resume and path.is_file() and path.stat().st_size:
        raise RunDirectoryError(f"{directory} already holds a run; add --resume to go on with it, or pick another -o")
    try:
        # What a run holds (expected answers, say) is its user's alone, whatever other users the machine has.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(directory, error) from error
    lock = take_lock(directory)
    try:
        resumed = _is_run(directory)
        if not resumed:
            _create(directory, resolved, given)
        connection = _connect(path)
        try:
            database = RunDatabase(directory, connection, lock, resumed=resumed)
            if not resumed:
                database.begin()
            return database
        except BaseException:
            connection.close()
            raise
    except BaseException as error:
        lock.release()
        if isinstance(error, sqlite3.Error | OSError):
            raise _cannot_open(directory, error) from error
        raise


def _cannot_open(directory: Path, error: sqlite3.Error | OSError) -> HubError:
    if isinstance(error, OSError):
        return cannot_write(directory, error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return cannot_write(directory, OSError(errno.ENOSPC, str(error)))
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return damaged(directory, error)
    return cannot_write(directory, error)


def _is_run(directory: Path) -> bool:
    """Whether the directory holds a complete run; the files of a writer that died while creating one do not count."""
    path = directory / DATABASE
    if not path.is_file() or not path.stat().st_size:
        return False
    check_siblings(directory)
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
        defend(connection, path.stat().st_size)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if not tables:
            return False
        check_schema(connection, directory)
        return "meta" in tables and bool(connection.execute("SELECT 1 FROM meta WHERE key = 'run_id'").fetchone())


def _create(directory: Path, resolved: dict[str, JsonValue], given: str) -> None:
    """Create a new run. `run.db` appears last and complete, so that a directory either holds a run or does not."""
    path = directory / DATABASE
    draft = directory / f"{DATABASE}.new"
    for name in (path, draft):
        for suffix in ("", "-wal", "-shm", "-journal"):
            name.with_name(name.name + suffix).unlink(missing_ok=True)
    for folder in (MEDIA, "logs"):
        (directory / folder).mkdir(mode=0o700, exist_ok=True)
    replace_file(directory / "run.toml", given.encode(), is_private=True)
    _write_resolved(directory, resolved)
    now = time.time()
    meta = {
        "run_id": f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}",
        "status": "running",
        "created_at": json.dumps(now),
        "hub_version": version("rollouthub"),
        "host": platform.node(),
        "resolved": to_json(resolved).decode(),
    }
    draft.touch(mode=0o600)  # its WAL gets the same mode
    with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
        connection.executescript(
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA}; BEGIN; {TABLES}"
        )
        connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))
        connection.execute("COMMIT")
    draft.replace(path)


def _write_resolved(directory: Path, resolved: dict[str, JsonValue]) -> None:
    replace_file(directory / "resolved.json", to_json(resolved, indent=2) + b"\n", is_private=True)


def _connect(path: Path) -> sqlite3.Connection:
    # One batch at a time, but each in whichever worker thread is free.
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    try:
        # Says now whether it can be written, and leaves it as it is.
        connection.executescript("BEGIN IMMEDIATE; ROLLBACK")
        # Safe from a killed process; a power cut may cost the last commits, never the database.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection
