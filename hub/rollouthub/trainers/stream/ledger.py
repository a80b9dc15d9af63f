"""`supply.db`, beside `run.db`: which units were handed out or dropped, at which version. The run's lock covers it."""

import json
import sqlite3
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Literal, TypeVar

import anyio
import anyio.to_thread

from rollouthub.errors import RunDirectoryError, StoreError
from rollouthub.store.writer import write_error

SUPPLY = "supply.db"
SCHEMA = 1
_GATHER_SECONDS = 0.05

Fate = Literal["handed", "constant", "short", "stale", "filtered"]
"""`stale` also marks those that were played again."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What became of a unit."""

    unit_id: str
    group_id: str
    environment: str
    split: str
    task_id: str
    sample: int | None
    """None of a whole group."""
    epoch: int
    visit: int
    fate: Fate
    version: int
    """The supply's at that time."""
    scored: int
    policy_min: int | None
    policy_max: int | None


_COLUMNS = [field.name for field in fields(LedgerEntry)]
_TABLES = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE units (
    seq INTEGER PRIMARY KEY,
    unit_id TEXT NOT NULL UNIQUE,
    group_id TEXT NOT NULL,
    environment TEXT NOT NULL,
    split TEXT NOT NULL,
    task_id TEXT NOT NULL,
    sample INTEGER,
    epoch INTEGER NOT NULL,
    visit INTEGER NOT NULL,
    fate TEXT NOT NULL,
    version INTEGER NOT NULL,
    scored INTEGER NOT NULL,
    policy_min INTEGER,
    policy_max INTEGER
);
CREATE INDEX units_by_epoch ON units (epoch);
CREATE INDEX units_by_policy ON units (policy_min);
PRAGMA user_version = {SCHEMA};
"""
_INSERT = f"INSERT OR REPLACE INTO units ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_OF_TASK = (
    "environment = old.environment AND split = old.split AND task_id = old.task_id AND sample IS old.sample "
    "AND epoch = old.epoch"
)

StaleTask = tuple[str, str, str, int | None, int, int]
"""Environment, split, task, sample, epoch, and the visit that is due."""


class Ledger:
    """The file, open under the run's lock. Entries are queued, and committed in batches by a worker thread."""

    def __init__(self, connection: sqlite3.Connection, directory: Path) -> None:
        self._connection, self._directory = connection, directory
        self._entries: deque[LedgerEntry] = deque()
        self._meta: dict[str, str] = {}
        self._work = anyio.Event()
        self._thread = anyio.CapacityLimiter(1)
        self.failure: StoreError | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, directory: Path, *, resume: bool) -> AsyncGenerator["Ledger"]:
        """Begin a ledger, or go on with it; what is noted by the time the block is left is kept.

        Raises:
            RunDirectoryError: it cannot be read, or a newer version of rollouthub wrote it.
            StoreError: it cannot be written.
        """
        connection = await anyio.to_thread.run_sync(lambda: _connect(directory / SUPPLY, resume))
        ledger = cls(connection, directory)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ledger._run)
                try:
                    yield ledger
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(ledger._close, limiter=ledger._thread)

    def note(self, entry: LedgerEntry) -> None:
        """Keep what became of a unit; durable some 50 ms later.

        Raises:
            StoreError: the ledger cannot be written any more.
        """
        if self.failure is not None:
            raise self.failure
        self._entries.append(entry)
        self._work.set()

    def remember(self, key: str, value: int | bool) -> None:
        """Keep a fact."""
        self._meta[key] = json.dumps(value)
        self._work.set()

    async def recall(self, key: str) -> int | None:
        """A fact; None where it was never told."""
        return await self.ask(lambda connection: _fact(connection, key))

    async def concluded(self, epoch: int) -> set[str]:
        """The units of an epoch that have an entry."""

        def look(connection: sqlite3.Connection) -> set[str]:
            rows = connection.execute("SELECT unit_id FROM units WHERE epoch = ?", (epoch,))
            return {unit_id for (unit_id,) in rows}

        return await self.ask(look)

    async def to_be_played_again(self, most_visits: int) -> list[StaleTask]:
        """Stale tasks whose next visit was not concluded."""

        def look(connection: sqlite3.Connection) -> list[StaleTask]:
            return connection.execute(
                "SELECT environment, split, task_id, sample, epoch, visit + 1 FROM units AS old "
                "WHERE fate = 'stale' AND visit < ? AND NOT EXISTS "
                f"(SELECT 1 FROM units AS new WHERE {_OF_TASK} AND new.visit = old.visit + 1) ORDER BY seq",
                (most_visits,),
            ).fetchall()

        return await self.ask(look)

    async def rewind(self, version: int) -> int:
        """Forget that units were handed out at this version or later, and what a later policy was; how many."""

        def forget(connection: sqlite3.Connection) -> int:
            lowest = connection.execute("SELECT min(epoch) FROM units WHERE version >= ?", (version,)).fetchone()[0]
            done = _fact(connection, "epochs_done")
            if lowest is not None and done is not None and done > lowest:
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('epochs_done', ?)", (json.dumps(lowest),))
            return connection.execute("DELETE FROM units WHERE version >= ? AND fate = 'handed'", (version,)).rowcount

        return await self.ask(forget)

    async def ask(self, look: Callable[[sqlite3.Connection], Result]) -> Result:
        """Ask the database, with all that was noted in it.

        Raises:
            StoreError: it cannot be read or written.
        """

        def asked() -> Result:
            try:
                self._commit()
                return look(self._connection)
            except sqlite3.Error as error:
                raise write_error(self._directory, error) from error

        return await anyio.to_thread.run_sync(asked, limiter=self._thread)

    async def _run(self) -> None:
        while self.failure is None:
            await self._work.wait()
            await anyio.sleep(_GATHER_SECONDS)
            self._work = anyio.Event()
            with anyio.CancelScope(shield=True):
                try:
                    await self.ask(lambda connection: None)
                except StoreError as error:
                    self.failure = error

    def _commit(self) -> None:
        """Write what is queued, in one transaction; nothing of it is forgotten where that fails."""
        entries, meta = list(self._entries), dict(self._meta)
        if not entries and not meta:
            return
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(_INSERT, [astuple(entry) for entry in entries])
            self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(meta.items()))
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise
        for _ in entries:
            self._entries.popleft()
        for key, value in meta.items():
            if self._meta.get(key) == value:
                del self._meta[key]

    def _close(self) -> None:
        """Leave a single file that a read-only mount can read."""
        try:
            if self.failure is None:
                with suppress(sqlite3.Error):
                    self._commit()
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                    self._connection.execute("PRAGMA journal_mode = DELETE")
        finally:
            self._connection.close()


def _fact(connection: sqlite3.Connection, key: str) -> int | None:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else json.loads(row[0])


def _connect(path: Path, resume: bool) -> sqlite3.Connection:
    if not resume:
        for suffix in ("", "-wal", "-shm", "-journal"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    try:
        schema: int = connection.execute("PRAGMA user_version").fetchone()[0]
        if schema > SCHEMA:
            raise RunDirectoryError(f"{path} was written by a newer rollouthub (schema {schema}); use that one for it")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if not schema:
            connection.executescript(f"BEGIN; {_TABLES} COMMIT;")
    except sqlite3.Error as error:
        connection.close()
        raise RunDirectoryError(f"{path} cannot be used ({error}); move it away, or start a new run") from error
    except BaseException:
        connection.close()
        raise
    return connection
