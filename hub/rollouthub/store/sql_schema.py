"""The tables of `run.db`, and the check that a file is such a database."""

import re
import sqlite3
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from rollouthub.errors import RunDirectoryError
from rollouthub.store.run_directories import DATABASE
from rollouthub.store.run_facts import AttemptSummary, LiveState

SCHEMA = 1
"""`PRAGMA user_version` of the databases that this version writes and reads."""
APPLICATION_ID = 0x656E7668
"""`PRAGMA application_id`: "envh" in ASCII."""
MEDIA = "media"

SUMMARY_COLUMNS = tuple(field.name for field in fields(AttemptSummary))
LIVE_COLUMNS = tuple(field.name for field in fields(LiveState))

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rollouts (
    id INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL UNIQUE,
    rollout_id TEXT NOT NULL,
    group_id TEXT NOT NULL,
    environment TEXT NOT NULL,
    split TEXT NOT NULL,
    task_id TEXT NOT NULL,
    source TEXT,
    sample INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    effective INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    stop TEXT NOT NULL,
    reward REAL,
    passed INTEGER,
    turns INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost REAL,
    seconds REAL NOT NULL,
    queue_seconds REAL NOT NULL,
    setup_seconds REAL NOT NULL,
    agent_seconds REAL NOT NULL,
    model_seconds REAL NOT NULL,
    tool_seconds REAL NOT NULL,
    verify_seconds REAL NOT NULL,
    close_seconds REAL NOT NULL,
    started_at REAL NOT NULL,
    finished_at REAL NOT NULL,
    fault TEXT,
    trainable INTEGER NOT NULL,
    suspect INTEGER NOT NULL DEFAULT 0,
    body TEXT NOT NULL -- the record as JSON, without its turns
);
CREATE UNIQUE INDEX rollouts_by_attempt ON rollouts (rollout_id, attempt);
CREATE UNIQUE INDEX rollouts_effective ON rollouts (rollout_id) WHERE effective;
CREATE TABLE turns (
    id INTEGER PRIMARY KEY, -- rollouts.id * 2^20 + place in the record: appended in order, found without an index
    body TEXT NOT NULL, -- the turn as JSON, without its arrays of numbers
    prefix_turn INTEGER, -- the place of the turn whose prompt and output ids begin this prompt
    prefix_length INTEGER NOT NULL, -- how many of those ids do
    prompt_token_ids BLOB, -- the prompt ids after that prefix; this and the arrays below are packed little-endian
    output_token_ids BLOB,
    output_logprobs BLOB,
    output_mask BLOB,
    policy_versions BLOB
);
CREATE TABLE tools (digest TEXT PRIMARY KEY, definitions TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE live (
    rollout_id TEXT PRIMARY KEY,
    environment TEXT NOT NULL,
    task_id TEXT NOT NULL,
    sample INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL,
    turn INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    updated_at REAL NOT NULL
) WITHOUT ROWID;
"""

TURN_BITS = 20
_MOST_TABLES = 100
_MOST_ID = 2 ** (63 - TURN_BITS) - 2
"""Largest row id of a rollout of which the ids of turns are numbers of SQLite's."""
_LENGTH = 2**26
"""Bytes by which a value may exceed the file's size: SQLite may combine stored values."""
_STEPS, _STEPS_BYTE, _STRIDE = 100_000_000, 4, 100_000
"""Limits in steps of SQLite's virtual machine: per read (about a second), added per byte of the file, and between
two checks.
"""


def check_schema(connection: sqlite3.Connection, directory: Path) -> None:
    """Check that this is a run's database with a schema that this version knows.

    Raises:
        RunDirectoryError: it is not.
    """
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        raise RunDirectoryError(f"{directory / DATABASE} is not the database of a run; move it away")
    _check_tables(connection, directory)
    schema: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if schema > SCHEMA:
        raise RunDirectoryError(
            f"{directory} was written with run schema {schema}, and this version of rollouthub knows schemas up to "
            f"{SCHEMA}; use a newer rollouthub for it, or start a new run in another directory (-o)"
        )


def lacks_suspect(connection: sqlite3.Connection) -> bool:
    """Whether a run was made before scores could be suspect."""
    return all(column != "suspect" for _, column, *_ in connection.execute("PRAGMA main.table_info(rollouts)"))


def read_as_new(connection: sqlite3.Connection) -> None:
    """Make an older run's database look like the current schema, for this connection only."""
    if lacks_suspect(connection):
        connection.execute("CREATE TEMP VIEW rollouts AS SELECT *, 0 AS suspect FROM main.rollouts")


def defend(connection: sqlite3.Connection, size: int) -> Callable[[], None]:
    """Protect a reader from an untrusted database: the database may not run SQL of its own, and reading is limited.

    Pages can be linked so that a small file has endless rows, or values of a gigabyte. Reading is limited to what a
    file of `size` bytes can hold; the returned function resets the limit for another read.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(size + _LENGTH, 2**31 - 1))
    most = (_STEPS + _STEPS_BYTE * size) // _STRIDE
    strides = most

    def is_over() -> bool:
        nonlocal strides
        strides -= 1
        return strides < 0

    def anew() -> None:
        nonlocal strides
        strides = most

    connection.set_progress_handler(is_over, _STRIDE)
    return anew


def _check_tables(connection: sqlite3.Connection, directory: Path) -> None:
    """Check that a run's tables are real tables: a view or virtual table would run code of the file's author."""
    query = "SELECT type, substr(sql, 1, 13), name FROM sqlite_master LIMIT ?"
    kinds = connection.execute(query, (_MOST_TABLES,)).fetchall()
    is_strange = len(kinds) == _MOST_TABLES or any(
        kind not in ("table", "index") or (kind == "table" and sql.upper() != "CREATE TABLE ") for kind, sql, _ in kinds
    )
    names = re.findall(r"CREATE TABLE (\w+)", TABLES)
    if is_strange or any(_has_computed_columns(connection, name) for name in names):
        raise RunDirectoryError(
            f"{directory / DATABASE} holds views, triggers or computed columns, which no run of rollouthub has; "
            "it is not read: ask its sender for a run directory as the hub wrote it"
        )
    is_there = any(kind == "table" and name == "rollouts" for kind, _, name in kinds)
    if is_there and connection.execute("SELECT 1 FROM rollouts WHERE id > ?", (_MOST_ID,)).fetchone():
        raise RunDirectoryError(
            f"{directory / DATABASE} numbers its rollouts as no run of rollouthub does, beyond {_MOST_ID:,}; "
            "ask its sender for a run directory as the hub wrote it"
        )


def _has_computed_columns(connection: sqlite3.Connection, table: str) -> bool:
    query = "SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden LIMIT 1"
    return connection.execute(query, (table,)).fetchone() is not None


def damaged(directory: Path, error: Exception) -> RunDirectoryError:
    """The error for a database that SQLite cannot read."""
    return RunDirectoryError(
        f"{directory / DATABASE} cannot be read ({error}): it is damaged or no database. "
        f"Salvage what is left with `sqlite3 {DATABASE} .recover`, or start a new run in another directory (-o)"
    )
