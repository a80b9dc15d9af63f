"""Reads parts of records by row id, for lists: there are too many to hold for every rollout."""

import json
import sqlite3
from collections.abc import Callable, Iterable
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from pydantic import ValidationError

from rollouthub.errors import RunDirectoryError, describe, invalid_fields
from rollouthub.live.follow.row_previews import MOST_BODY, RowPreview, read_previews
from rollouthub.rollout import Rollout
from rollouthub.store.read_only_source import ReadOnlySource
from rollouthub.store.record_rows import rollout_from
from rollouthub.store.sql_schema import TURN_BITS

Components = dict[str, float]
"""Component name → unweighted value; empty where the reward is not composite or missing."""
_Found = TypeVar("_Found")
_NO_ARRAYS = "NULL, 0, NULL, NULL, NULL, NULL, NULL"
_LAST_TURNS = f"""
SELECT id, body, {_NO_ARRAYS} FROM turns
WHERE id >= ? AND id < ? AND length(body) <= {MOST_BODY} ORDER BY id DESC LIMIT ?
"""


class RowReader:
    """Reads by row id, over its own connection. Reads block, so call them outside the screen's thread. Close it after
    use.

    Every read raises `RunDirectoryError` if the run no longer exists or is damaged, and `StoreError` if it could not
    be read at this moment.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._source = ReadOnlySource(directory)
        self._lock = Lock()
        self._is_closed = False

    def components(self, row_ids: Iterable[int]) -> dict[int, Components]:
        """Return the components of rows by row id; rows that no longer exist are left out."""
        wanted = list(row_ids)

        def read(connection: sqlite3.Connection) -> dict[int, Components]:
            # From the text: where a record is no JSON, that is for whoever opens it to say.
            rows = connection.execute(
                "SELECT id, CASE WHEN json_valid(body) THEN json_extract(body, '$.score.components') END "
                f"FROM rollouts WHERE id IN ({', '.join('?' * len(wanted))})",
                wanted,
            )
            return {row_id: _values(text) for row_id, text in rows}

        return self._read(read, {})

    def previews(self, row_ids: Iterable[int]) -> dict[int, RowPreview]:
        """Return what rows were asked, answered and told, in a line each, by row id."""
        wanted = list(row_ids)
        return self._read(lambda connection: dict(zip(wanted, read_previews(connection, wanted), strict=True)), {})

    def ending(self, row_id: int, turns: int) -> Rollout | None:
        """Return a record with its last turns only, without their tokens; None if it is gone, or too large.

        However long the rollout is, no more than these turns are read.
        """

        def read(connection: sqlite3.Connection) -> Rollout | None:
            found = connection.execute(
                f"SELECT body FROM rollouts WHERE id = ? AND length(body) <= {MOST_BODY}", (row_id,)
            ).fetchone()
            if found is None:
                return None
            span = (row_id << TURN_BITS, row_id + 1 << TURN_BITS, turns)
            rows = connection.execute(_LAST_TURNS, span).fetchall()
            try:
                return rollout_from(found[0], reversed(rows))
            except (ValueError, TypeError) as error:
                why = invalid_fields(error) if isinstance(error, ValidationError) else describe(error)
                raise RunDirectoryError(f"a record of {self._directory} is damaged ({why})") from error

        return self._read(read, None)

    def _read(self, read: Callable[[sqlite3.Connection], _Found], nothing: _Found) -> _Found:
        with self._lock:
            if self._is_closed:
                return nothing
            with self._source.connect() as connection:
                return read(connection)

    def close(self) -> None:
        """Close the reader once a read in progress has finished."""
        with self._lock:
            self._is_closed = True
            self._source.close()


def _values(text: Any) -> Components:
    """Parse the components; invalid ones are dropped here, because reading the full record reports them."""
    try:
        parts: Any = json.loads(text) if isinstance(text, str) else {}
        values = {str(name): float(part["value"]) for name, part in parts.items()}
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return {}
    return {name: value for name, value in values.items() if isfinite(value)}
