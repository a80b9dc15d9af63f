"""The search index of a registry's directory, made from the other files, from which it can be rebuilt.

Only download counts are stored nowhere else: a rebuilt index takes them over from the one before.
"""

import sqlite3
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollouthub.errors import StoreError
from rollouthub_registry.names import PackageName, Release
from rollouthub_registry.server.directory_layout import sort_key
from rollouthub_registry.server.version_listing import Listing, load_facts, release_of

SCHEMA_VERSION = 4
_SCHEMA = """
CREATE TABLE versions (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, sort_key TEXT NOT NULL,
    published_at REAL NOT NULL, updated_at REAL NOT NULL, yanked TEXT, is_latest INTEGER NOT NULL DEFAULT 0,
    passed INTEGER NOT NULL, difficulty REAL, quality REAL NOT NULL, facts TEXT NOT NULL,
    kind TEXT NOT NULL, audit TEXT NOT NULL, licence TEXT NOT NULL, needs TEXT NOT NULL, UNIQUE (name, version)
) STRICT;
CREATE INDEX in_order ON versions (name, sort_key);
CREATE INDEX latest ON versions (name) WHERE is_latest;
CREATE TABLE IF NOT EXISTS downloads (name TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID, STRICT;
CREATE VIRTUAL TABLE words USING fts5 (
    name, description, tags, tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
);
"""
COLUMNS = (
    "v.id, v.name, v.version, v.published_at, v.updated_at, v.yanked, v.is_latest, v.facts, "
    "coalesce(d.count, 0) AS downloads"
)
FROM = "versions v LEFT JOIN downloads d ON d.name = v.name"


@dataclass(frozen=True)
class Page:
    """Some of the versions, sorted by name and version, and the cursor of the next page; None at the end."""

    listings: list[Listing]
    next_cursor: tuple[str, str] | None


class Index:
    """The SQLite index of a registry: one connection, used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open the index; a missing, broken or older one is replaced by an empty one. The caller must hold the lock."""
        self._path, self._turn = path, threading.Lock()
        try:
            self._connection = _open(path)
        except sqlite3.OperationalError as error:
            raise StoreError(f"the index {path} cannot be opened: {error}") from error
        except sqlite3.DatabaseError:
            for suffix in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    path.with_name(path.name + suffix).unlink()
            self._connection = _open(path)

    def close(self) -> None:
        """Close the index."""
        self._connection.close()

    @contextmanager
    def use(self) -> Generator[sqlite3.Connection]:
        """The connection, for one thread at a time, in a transaction.

        Raises:
            StoreError: SQLite fails.
        """
        with self._turn:
            try:
                with self._connection:
                    yield self._connection
            except sqlite3.Error as error:
                raise StoreError(
                    f"the index {self._path} cannot be used: {error}; `hub registry rebuild` makes it anew"
                ) from error

    def add(self, listings: Iterable[Listing]) -> None:
        """Add versions, or update those that are in the index."""
        added = list(listings)
        rows = [
            (
                str(each.release.package),
                str(each.release.version),
                sort_key(each.release.version),
                each.published_at,
                each.updated_at,
                each.yanked,
                each.facts.checks_passed,
                each.facts.difficulty,
                each.facts.quality,
                each.facts.text,
                each.facts.kind,
                each.facts.audit_state,
                each.facts.licence,
                f" {' '.join(each.facts.needs)} ",
            )
            for each in added
        ]
        with self.use() as connection:
            connection.executemany(
                "INSERT INTO versions (name, version, sort_key, published_at, updated_at, yanked, passed, difficulty, "
                "quality, facts, kind, audit, licence, needs) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (name, version) DO UPDATE SET published_at = excluded.published_at, "
                "updated_at = excluded.updated_at, yanked = excluded.yanked, facts = excluded.facts, "
                "audit = excluded.audit",
                rows,
            )
            for name in dict.fromkeys(row[0] for row in rows):
                _choose_latest(connection, name)

    def drop(self, releases: Iterable[Release]) -> None:
        """Remove versions whose folders are gone."""
        with self.use() as connection:
            for release in releases:
                name = str(release.package)
                row = connection.execute(
                    "DELETE FROM versions WHERE name = ? AND version = ? RETURNING id", (name, str(release.version))
                ).fetchone()
                if row is not None:
                    connection.execute("DELETE FROM words WHERE rowid = ?", (row["id"],))
                _choose_latest(connection, name)

    def clear(self) -> None:
        """Remove all versions; download counts are kept."""
        with self.use() as connection:
            connection.execute("DELETE FROM versions")
            connection.execute("DELETE FROM words")

    def known(self) -> dict[Release, tuple[bool, bool]]:
        """Every version in the index: whether it is marked as yanked, and whether it was audited after publication."""
        with self.use() as connection:
            rows = connection.execute(
                "SELECT name, version, yanked IS NOT NULL AS yanked, "
                "json_extract(facts, '$.audit.is_of_registry') IS NOT NULL AS audited FROM versions"
            ).fetchall()
        return {release_of(row["name"], row["version"]): (bool(row["yanked"]), bool(row["audited"])) for row in rows}

    def standings(self) -> dict[str, tuple[str, str | None, str | None]]:
        """For each `namespace/name@version`: its digest, why it is yanked (None if it is not), and its audit's time."""
        with self.use() as connection:
            return {
                row["release"]: (row["digest"], row["yanked"], row["audited"])
                for row in connection.execute(
                    "SELECT name || '@' || version AS release, json_extract(facts, '$.digest') AS digest, yanked, "
                    "json_extract(facts, '$.audit.at') AS audited "
                    "FROM versions"
                )
            }

    def count_download(self, package: PackageName) -> None:
        """Count a download of a package."""
        with self.use() as connection:
            connection.execute(
                "INSERT INTO downloads VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET count = count + 1",
                (str(package),),
            )

    def find(self, package: PackageName, version: str) -> Listing | None:
        """One version; `latest` means the highest not yanked, or the highest if all are. None if there is none."""
        condition = "v.is_latest" if version == "latest" else "v.version = ?"
        values = (str(package),) if version == "latest" else (str(package), version)
        found = self.select(f"v.name = ? AND {condition}", values)
        return found[0] if found else None

    def versions(self, package: PackageName) -> list[Listing]:
        """All versions of a package, the latest published first."""
        return self.select("v.name = ?", (str(package),), "ORDER BY v.published_at DESC, v.id DESC")

    def page(
        self,
        limit: int,
        after: tuple[str, str] | None = None,
        *,
        containing: str = "",
        updated_since: float | None = None,
        include_yanked: bool = False,
        version: str | None = None,
    ) -> Page:
        """Up to `limit` versions that match the filters, after a cursor."""
        conditions, values = ["1"], list[Any]()
        if after is not None:
            conditions.append("(v.name, v.sort_key) > (?, ?)")
            values += after
        if containing:
            conditions.append("instr(v.name, ?)")
            values.append(containing.lower())
        if updated_since is not None:
            conditions.append("v.updated_at >= ?")
            values.append(updated_since)
        elif not include_yanked:
            conditions.append("v.yanked IS NULL")
        if version == "latest":
            conditions.append("v.is_latest")
        elif version is not None:
            conditions.append("v.version = ?")
            values.append(version)
        found = self.select(" AND ".join(conditions), (*values, limit + 1), "ORDER BY v.name, v.sort_key LIMIT ?")
        shown = found[:limit]
        last = shown[-1].release if len(found) > limit else None
        return Page(shown, None if last is None else (str(last.package), sort_key(last.version)))

    def all(self) -> Iterator[Listing]:
        """Every version, a few hundred at a time in memory."""
        after, rows = 0, [None]
        while rows:
            with self.use() as connection:
                rows = connection.execute(
                    f"SELECT {COLUMNS} FROM {FROM} WHERE v.id > ? ORDER BY v.id LIMIT 500", (after,)
                ).fetchall()
            yield from map(listing_of, rows)
            after = rows[-1]["id"] if rows else after

    def select(self, condition: str, values: Sequence[Any], order: str = "") -> list[Listing]:
        """The versions that meet an SQL condition."""
        with self.use() as connection:
            rows = connection.execute(f"SELECT {COLUMNS} FROM {FROM} WHERE {condition} {order}", values).fetchall()
        return [listing_of(row) for row in rows]


def listing_of(row: Any) -> Listing:
    """The listing for a database row with COLUMNS."""
    return Listing(
        release=release_of(row["name"], row["version"]),
        facts=load_facts(row["facts"]),
        published_at=row["published_at"],
        updated_at=row["updated_at"],
        yanked=row["yanked"],
        is_latest=bool(row["is_latest"]),
        downloads=row["downloads"],
    )


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found != SCHEMA_VERSION:
            clear = "DROP TABLE IF EXISTS versions; DROP TABLE IF EXISTS words;"
            connection.executescript(
                f"BEGIN IMMEDIATE; {clear} {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _choose_latest(connection: sqlite3.Connection, name: str) -> None:
    """Mark a package's latest version, and index its words for search."""
    for row in connection.execute("SELECT id FROM versions WHERE name = ? AND is_latest", (name,)).fetchall():
        connection.execute("DELETE FROM words WHERE rowid = ?", (row["id"],))
    connection.execute("UPDATE versions SET is_latest = 0 WHERE name = ? AND is_latest", (name,))
    row = connection.execute(
        "SELECT id, facts FROM versions WHERE name = ? ORDER BY yanked IS NOT NULL, sort_key DESC LIMIT 1", (name,)
    ).fetchone()
    if row is None:
        return
    facts = load_facts(row["facts"])
    connection.execute("UPDATE versions SET is_latest = 1 WHERE id = ?", (row["id"],))
    connection.execute(
        "INSERT INTO words (rowid, name, description, tags) VALUES (?, ?, ?, ?)",
        (row["id"], name, facts.description, " ".join((*facts.tags, *facts.splits))),
    )
