"""A consistent view of a run: while a live run goes on, all figures of its report come from the same moment."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rollouthub.store import RunInfo, RunReader
from rollouthub.store.read_only_source import ReadOnlySource


class Moment(ReadOnlySource):
    """A source whose readers all use one connection, inside one transaction."""

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        super().__init__(directory)
        self.connection = connection

    @contextmanager
    def connect(self) -> Generator[sqlite3.Connection]:
        """Yield the one connection, inside its transaction."""
        yield self.connection


@contextmanager
def one_moment(directory: Path) -> Generator[tuple[RunInfo, RunReader, sqlite3.Connection]]:
    """A run's facts, its reader and the reader's connection, all of which see the same commits.

    Raises:
        RunDirectoryError: there is no run, or none that this version can read.
        StoreError: the run cannot be read just now.
    """
    source = ReadOnlySource(directory)
    try:
        info = RunReader(source).info
        with source.connect() as connection:
            connection.execute("BEGIN")
            try:
                yield info, RunReader(Moment(directory, connection)), connection
            finally:
                connection.execute("ROLLBACK")
    finally:
        source.close()
