"""Records that wait for their group's verdict; they are stored apart from the run's results.

They have tables of their own, created with the first record, so that queries over results never include them.
"""

import sqlite3
from collections.abc import Iterable

from rollouthub.rollout import Rollout

_TABLES = (
    "CREATE TABLE IF NOT EXISTS waiting (rollout_id TEXT PRIMARY KEY, group_id TEXT NOT NULL, body TEXT NOT NULL) "
    "WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS judged (group_id TEXT PRIMARY KEY) WITHOUT ROWID",
)


class WaitingMembers:
    """The tables of waiting records, used by the run's one writer; each change is part of the writer's transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._has_tables = has_waiting(connection)
        self.records: dict[str, Rollout] = {}
        """Rollout id → record, for the records that were waiting when the run was opened."""
        self.judged: set[str] = set()
        """Ids of the groups that had their verdict when the run was opened."""
        if self._has_tables:
            for rollout_id, body in connection.execute("SELECT rollout_id, body FROM waiting"):
                self.records[rollout_id] = Rollout.model_validate_json(body)
            self.judged = {group_id for (group_id,) in connection.execute("SELECT group_id FROM judged")}

    def keep(self, record: Rollout, body: str) -> None:
        """Store a record as waiting."""
        if not self._has_tables:
            for table in _TABLES:
                self._connection.execute(table)
            self._has_tables = True
        self._connection.execute(
            "INSERT OR REPLACE INTO waiting VALUES (?, ?, ?)", (record.rollout_id, record.group_id, body)
        )

    def conclude(self, group_id: str, members: Iterable[str], *, is_judged: bool) -> None:
        """Remove the members of a group, because they have their scores or the verdict failed for good."""
        self._connection.executemany("DELETE FROM waiting WHERE rollout_id = ?", [(member,) for member in members])
        if is_judged:
            self._connection.execute("INSERT OR IGNORE INTO judged VALUES (?)", (group_id,))

    def rolled_back(self) -> None:
        """Record that the transaction, and with it the creation of the tables, was rolled back."""
        self._has_tables = has_waiting(self._connection)


def has_waiting(connection: sqlite3.Connection) -> bool:
    """Whether the run's database has tables of waiting records."""
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'waiting'").fetchone())
