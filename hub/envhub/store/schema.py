"""The tables of `run.db`, and which databases are ours to read."""

import sqlite3
from dataclasses import fields
from pathlib import Path

from envhub.errors import RunDirectoryError
from envhub.store.facts import LiveState, Summary

SCHEMA = 1
"""`PRAGMA user_version` of the databases this version writes and reads."""
APPLICATION_ID = 0x656E7668
"""`PRAGMA application_id`: "envh" in ASCII."""
DATABASE = "run.db"
MEDIA = "media"

SUMMARY_COLUMNS = tuple(field.name for field in fields(Summary))
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


def check_schema(connection: sqlite3.Connection, directory: Path) -> None:
    """Make sure that this is a run's database, of a schema this version knows.

    Raises:
        RunDirectoryError: it is not.
    """
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        raise RunDirectoryError(f"{directory / DATABASE} is not the database of a run; move it away")
    schema: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if schema > SCHEMA:
        raise RunDirectoryError(
            f"{directory} was written with run schema {schema}, and this version of envhub knows schemas up to "
            f"{SCHEMA}; use a newer envhub for it, or start a new run in another directory (-o)"
        )


def damaged(directory: Path, error: Exception) -> RunDirectoryError:
    """The error for a database that SQLite cannot make sense of."""
    return RunDirectoryError(
        f"{directory / DATABASE} cannot be read ({error}): it is damaged or no database. "
        f"Salvage what is left with `sqlite3 {DATABASE} .recover`, or start a new run in another directory (-o)"
    )
