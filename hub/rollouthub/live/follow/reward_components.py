"""Components of rewards, read from the store on demand: there are too many to hold for every rollout."""

import json
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import Any

from rollouthub.store.read_only_source import ReadOnlySource

Components = dict[str, float]
"""Component name → unweighted value; empty where the reward is not composite or missing."""


class ComponentsReader:
    """Reads components by row id, without the turns. Reads block, so call them outside the screen's thread. Close it
    after use.
    """

    def __init__(self, directory: Path) -> None:
        self._source = ReadOnlySource(directory)
        self._lock = Lock()
        self._is_closed = False

    def read(self, row_ids: Iterable[int]) -> dict[int, Components]:
        """Return the components of rows by row id; rows that no longer exist are left out.

        Raises:
            RunDirectoryError: the run no longer exists, or is damaged.
            StoreError: the run could not be read at this moment.
        """
        wanted = list(row_ids)
        with self._lock:
            if self._is_closed:
                return {}
            with self._source.connect() as connection:
                # From the text: where a record is no JSON, that is for whoever opens it to say.
                rows = connection.execute(
                    "SELECT id, CASE WHEN json_valid(body) THEN json_extract(body, '$.score.components') END "
                    f"FROM rollouts WHERE id IN ({', '.join('?' * len(wanted))})",
                    wanted,
                ).fetchall()
        return {row_id: _values(text) for row_id, text in rows}

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
