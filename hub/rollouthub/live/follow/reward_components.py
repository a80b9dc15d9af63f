"""What rewards are made of, read when it is asked for: too much to be kept for every rollout."""

import json
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import Any

from rollouthub.store.read_only_source import ReadOnlySource

Components = dict[str, float]
"""Values by name, unweighted; empty where a reward is not composite, or there is none."""


class ComponentsReader:
    """Reads by rows' ids, without turns; blocking, to be used off the screen's thread. Close it when done."""

    def __init__(self, directory: Path) -> None:
        self._source = ReadOnlySource(directory)
        self._lock = Lock()
        self._is_closed = False

    def read(self, row_ids: Iterable[int]) -> dict[int, Components]:
        """The components of rows; those of a row that is gone are left out.

        Raises:
            RunDirectoryError: there is no run any more, or it is damaged.
            StoreError: it could not be read just now.
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
        """Give back what reading took, after a read that is under way."""
        with self._lock:
            self._is_closed = True
            self._source.close()


def _values(text: Any) -> Components:
    """Whatever of it are components: the rest is for whoever opens the record to say."""
    try:
        parts: Any = json.loads(text) if isinstance(text, str) else {}
        values = {str(name): float(part["value"]) for name, part in parts.items()}
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return {}
    return {name: value for name, value in values.items() if isfinite(value)}
