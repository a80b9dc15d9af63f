"""Reads a run group by group; a damaged record is reported, and the remaining ones are still read."""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rollouthub.rollout import Rollout
from rollouthub.store.record_rows import SELECT_TURNS, rollout_from
from rollouthub.store.sql_schema import TURN_BITS
from rollouthub.text import one_line


@dataclass(frozen=True, slots=True)
class BrokenRecord:
    """A record that is damaged and cannot be read."""

    name: str
    """The record's rollout id, or its position in the database if the id cannot be read either."""
    problem: str


def read_groups(connection: sqlite3.Connection, *, effective: bool) -> Iterator[list[Rollout | BrokenRecord]]:
    """Yield the records of each task, sorted by sample and attempt; tasks come in the order of their first commit.

    Only one group, and an index of some bytes per record, are in memory at a time.
    """
    where = " WHERE effective" if effective else ""
    listing = connection.execute(
        "SELECT first, id FROM (SELECT id, sample, attempt, min(id) OVER (PARTITION BY environment, group_id) AS first "
        f"FROM rollouts{where}) ORDER BY first, sample, attempt"
    )
    for _, entries in groupby(listing, key=lambda entry: entry[0]):
        yield [_read(connection, row_id) for _, row_id in entries]


def read_models(connection: sqlite3.Connection) -> list[str]:
    """Return the models that records name; unreadable records are skipped."""
    query = (
        "SELECT DISTINCT CASE WHEN json_valid(body) THEN json_extract(body, '$.model') END AS model FROM rollouts "
        "WHERE reward IS NOT NULL AND model IS NOT NULL"
    )
    try:
        return sorted(str(name) for (name,) in connection.execute(query))
    except sqlite3.DatabaseError:
        return []


def has_media(connection: sqlite3.Connection) -> bool:
    """Whether any message contains media; also True if a message cannot be read."""
    query = """SELECT EXISTS (SELECT 1 FROM turns WHERE instr(body, '"type":"media"'))"""
    try:
        return bool(connection.execute(query).fetchone()[0])
    except sqlite3.DatabaseError:
        return True


def _read(connection: sqlite3.Connection, row_id: int) -> Rollout | BrokenRecord:
    name = f"record {row_id}"
    try:
        found = connection.execute("SELECT rollout_id FROM rollouts WHERE id = ?", (row_id,)).fetchone()
        name = str(found[0])
        columns = connection.execute(
            "SELECT rollout_id, group_id, sample, attempt, reward, turns, body FROM rollouts WHERE id = ?", (row_id,)
        ).fetchone()
        turns = connection.execute(SELECT_TURNS, (row_id << TURN_BITS, row_id + 1 << TURN_BITS)).fetchall()
        return _checked(row_id, columns, turns)
    except (ValueError, IndexError, TypeError, sqlite3.DatabaseError) as error:
        return BrokenRecord(name, one_line(str(error), 300) or type(error).__name__)


def _checked(row_id: int, columns: Sequence[Any], turns: Sequence[Sequence[Any]]) -> Rollout:
    """Return a record after checking that its rows are complete and consistent.

    Raises:
        ValueError: the rows are incomplete or inconsistent.
    """
    *keys, reward, count, body = columns
    if [row[0] for row in turns] != [(row_id << TURN_BITS) + place for place in range(count)]:
        raise ValueError(f"{len(turns)} rows are there of its {count} turns")
    rollout = rollout_from(body, turns)
    if keys != [rollout.rollout_id, rollout.group_id, rollout.sample, rollout.attempt]:
        raise ValueError(f"its columns say {keys}, and its body is another's")
    if reward != rollout.reward:
        raise ValueError(f"its column says reward {reward}, and its body {rollout.reward}")
    for turn, (_, _, _, length, rest, *_) in zip(rollout.turns, turns, strict=True):
        prompt = turn.prompt_token_ids
        if prompt is not None and len(prompt) != length + len(rest) // 4:
            raise ValueError(f"turn {turn.index} lacks a part of its prompt, which begins with what is gone")
    return rollout
