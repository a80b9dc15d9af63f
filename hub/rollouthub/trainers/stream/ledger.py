"""`supply.db`, beside `run.db`: which units were handed out or dropped, and at which policy version, and the opponents
that were added. The run's lock protects it.
"""

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
BEFORE = -1
"""Epoch and policy version of pass rates that an earlier run measured."""
_GATHER_SECONDS = 0.05

Fate = Literal["handed", "constant", "short", "stale", "filtered"]
"""How a unit ended. `stale` is also recorded for units whose task was played again."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """How a unit ended: handed out, or why it was dropped."""

    unit_id: str
    group_id: str
    environment: str
    split: str
    task_id: str
    sample: int | None
    """The sample number; None if the unit is a whole group."""
    epoch: int
    visit: int
    fate: Fate
    version: int
    """The supply's policy version when the unit ended."""
    scored: int
    policy_min: int | None
    policy_max: int | None


@dataclass(frozen=True, slots=True)
class PassRate:
    """The share of a task's group that passed."""

    environment: str
    split: str
    task_id: str
    epoch: int
    """The epoch in which the group was played."""
    version: int
    """The policy version when the group was judged."""
    rate: float


@dataclass(frozen=True, slots=True)
class AddedOpponent:
    """A model that was added to the pool of a seat."""

    seat: str
    name: str
    version: int | None
    model: str
    """Its `ModelConfig`, as JSON."""
    added_at: int
    """The supply's policy version when it was added first."""


_COLUMNS = [field.name for field in fields(LedgerEntry)]
_RATE_COLUMNS = [field.name for field in fields(PassRate)]
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
_RATES = """
CREATE TABLE IF NOT EXISTS pass_rates (
    environment TEXT NOT NULL,
    split TEXT NOT NULL,
    task_id TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    version INTEGER NOT NULL,
    rate REAL NOT NULL,
    PRIMARY KEY (environment, split, task_id, epoch)
) WITHOUT ROWID;
"""
_NO_VERSION = -1
_OPPONENTS = """
CREATE TABLE IF NOT EXISTS opponents (
    place INTEGER PRIMARY KEY,
    seat TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    model TEXT NOT NULL,
    added_at INTEGER NOT NULL,
    UNIQUE (seat, name, version)
);
"""
_ADD_OPPONENT = (
    "INSERT INTO opponents (seat, name, version, model, added_at) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (seat, name, version) DO UPDATE SET model = excluded.model"
)
_INSERT = f"INSERT OR REPLACE INTO units ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
_OF_TASK = (
    "environment = old.environment AND split = old.split AND task_id = old.task_id AND sample IS old.sample "
    "AND epoch = old.epoch"
)

StaleTask = tuple[str, str, str, int | None, int, int]
"""Environment, split, task id, sample, epoch, and the number of the next pass."""


class Ledger:
    """The open file. Entries are queued, and committed in batches by a worker thread."""

    def __init__(self, connection: sqlite3.Connection, directory: Path) -> None:
        self._connection, self._directory = connection, directory
        self._entries: deque[LedgerEntry] = deque()
        self._rates: deque[PassRate] = deque()
        self._meta: dict[str, str] = {}
        self._work = anyio.Event()
        self._thread = anyio.CapacityLimiter(1)
        self.failure: StoreError | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, directory: Path, *, resume: bool) -> AsyncGenerator["Ledger"]:
        """Create a ledger, or reopen it with `resume`; entries noted before the end of the block are committed.

        Raises:
            RunDirectoryError: the file cannot be read, or a newer version of rollouthub wrote it.
            StoreError: the file cannot be written.
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
        """Record how a unit ended; the entry is durable about 50 ms later.

        Raises:
            StoreError: the ledger can no longer be written.
        """
        if self.failure is not None:
            raise self.failure
        self._entries.append(entry)
        self._work.set()

    def note_rate(self, seen: PassRate) -> None:
        """Record a task's pass rate."""
        self._rates.append(seen)
        self._work.set()

    async def pass_rates(self) -> list[PassRate]:
        """All recorded pass rates, ordered by epoch."""

        def look(connection: sqlite3.Connection) -> list[PassRate]:
            rows = connection.execute(f"SELECT {', '.join(_RATE_COLUMNS)} FROM pass_rates ORDER BY epoch")
            return [PassRate(*row) for row in rows]

        return await self.ask(look)

    def remember(self, key: str, value: int | bool) -> None:
        """Store a value under a key."""
        self._meta[key] = json.dumps(value)
        self._work.set()

    async def recall(self, key: str) -> int | None:
        """The value stored under a key; None if there is none."""
        return await self.ask(lambda connection: _fact(connection, key))

    async def concluded(self, epoch: int) -> set[str]:
        """The ids of the epoch's units that have an entry."""

        def look(connection: sqlite3.Connection) -> set[str]:
            rows = connection.execute("SELECT unit_id FROM units WHERE epoch = ?", (epoch,))
            return {unit_id for (unit_id,) in rows}

        return await self.ask(look)

    async def to_be_played_again(self, most_passes: int) -> list[StaleTask]:
        """Stale tasks whose next pass has no entry yet."""

        def look(connection: sqlite3.Connection) -> list[StaleTask]:
            return connection.execute(
                "SELECT environment, split, task_id, sample, epoch, visit + 1 FROM units AS old "
                "WHERE fate = 'stale' AND visit < ? AND NOT EXISTS "
                f"(SELECT 1 FROM units AS new WHERE {_OF_TASK} AND new.visit = old.visit + 1) ORDER BY seq",
                (most_passes,),
            ).fetchall()

        return await self.ask(look)

    async def add_opponent(self, added: AddedOpponent) -> None:
        """Record an opponent; it is durable on return. One of the same seat, name and version gets the new model."""
        version = _NO_VERSION if added.version is None else added.version  # of NULLs, no two are equal
        row = (added.seat, added.name, version, added.model, added.added_at)
        await self.ask(lambda connection: connection.execute(_ADD_OPPONENT, row))

    async def opponents(self) -> list[AddedOpponent]:
        """The recorded opponents, in the order in which they were added."""

        def look(connection: sqlite3.Connection) -> list[AddedOpponent]:
            rows = connection.execute(
                f"SELECT seat, name, nullif(version, {_NO_VERSION}), model, added_at FROM opponents ORDER BY place"
            )
            return [AddedOpponent(*row) for row in rows]

        return await self.ask(look)

    async def rewind(self, version: int) -> int:
        """Forget which units were handed out, and which pass rates were measured, at this policy version or later, and
        which opponents were added later. Returns the number of units.
        """

        def forget(connection: sqlite3.Connection) -> int:
            lowest = connection.execute("SELECT min(epoch) FROM units WHERE version >= ?", (version,)).fetchone()[0]
            done = _fact(connection, "epochs_done")
            if lowest is not None and done is not None and done > lowest:
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('epochs_done', ?)", (json.dumps(lowest),))
            connection.execute("DELETE FROM pass_rates WHERE version >= ?", (version,))
            connection.execute("DELETE FROM opponents WHERE added_at > ?", (version,))
            return connection.execute("DELETE FROM units WHERE version >= ? AND fate = 'handed'", (version,)).rowcount

        return await self.ask(forget)

    async def ask(self, look: Callable[[sqlite3.Connection], Result]) -> Result:
        """Query the database after committing all queued entries.

        Raises:
            StoreError: the file cannot be read or written.
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
        """Write the queue in one transaction; if that fails, the queue is unchanged."""
        entries, rates, meta = list(self._entries), list(self._rates), dict(self._meta)
        if not entries and not rates and not meta:
            return
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(_INSERT, [astuple(entry) for entry in entries])
            self._connection.executemany(
                "INSERT OR REPLACE INTO pass_rates VALUES (?, ?, ?, ?, ?, ?)", [astuple(seen) for seen in rates]
            )
            self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(meta.items()))
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise
        for _ in entries:
            self._entries.popleft()
        for _ in rates:
            self._rates.popleft()
        for key, value in meta.items():
            if self._meta.get(key) == value:
                del self._meta[key]

    def _close(self) -> None:
        """Commit the queue, and leave a single file that can be read from a read-only mount."""
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
        connection.executescript(_RATES + _OPPONENTS)
    except sqlite3.Error as error:
        connection.close()
        raise RunDirectoryError(f"{path} cannot be used ({error}); move it away, or start a new run") from error
    except BaseException:
        connection.close()
        raise
    return connection
