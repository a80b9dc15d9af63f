"""Follows one run read-only: each refresh reads what is new and updates every figure in use."""

import sqlite3
import struct
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from pydantic import ValidationError

from rollouthub.errors import RunDirectoryError, StoreError, describe, invalid_fields
from rollouthub.live.follow.attempt_columns import LATE, AttemptColumns
from rollouthub.live.follow.attempt_stages import live_state
from rollouthub.live.follow.filter import RolloutFilter
from rollouthub.live.follow.followed_trainer import FollowedTrainer
from rollouthub.live.follow.group_tables import Lines
from rollouthub.live.follow.incremental import IncrementalView
from rollouthub.live.follow.outcome_counts import OutcomeCounts
from rollouthub.live.follow.pace import overall_rate, present_rate
from rollouthub.live.follow.review_queue import ReviewQueue
from rollouthub.live.follow.reward_histogram import RewardHistogram
from rollouthub.live.follow.rollout_view import RolloutList
from rollouthub.live.follow.row_previews import RowPreview, read_previews
from rollouthub.live.follow.stage_times import StageQuantiles
from rollouthub.live.follow.timeline import Timeline
from rollouthub.rollout import Rollout
from rollouthub.store import LiveState, RunInfo, RunReader
from rollouthub.store.notes import RunNotes
from rollouthub.store.read_only_source import ReadOnlySource
from rollouthub.store.record_rows import SELECT_TURNS, rollout_from
from rollouthub.store.run_facts import ShownStatus
from rollouthub.store.sql_schema import LIVE_COLUMNS, TURN_BITS

_CHUNK = 512
"""Rows converted at a time while a run is opened, to limit memory."""
_ALL = "SELECT id, {} FROM rollouts ORDER BY id"
# Without the sign SQLite reads the table from its beginning, in order of ids, rather than what is new.
_NEW = "SELECT id, {} FROM rollouts WHERE seq > ? ORDER BY +id"
_LATE = f"SELECT {', '.join(LATE)} FROM rollouts WHERE id <= ? ORDER BY id"
_LIVE = f"SELECT {', '.join(LIVE_COLUMNS)} FROM live ORDER BY updated_at DESC, rollout_id"
_Followed = TypeVar("_Followed", bound=IncrementalView)


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The progress of a run."""

    status: ShownStatus
    done: int
    """Number of samples with a record."""
    planned: int | None
    in_flight: int
    rate: float | None
    """Rollouts per second: over the last minute while it runs, else over all of it; None if unknown."""
    eta_seconds: float | None
    """Seconds until all planned rollouts are done at this rate; None if unknown or not running."""
    seconds: float
    """Seconds since it was started or resumed; for an ended run, from its first attempt to its last record."""

    @property
    def share(self) -> float | None:
        """Share of the planned rollouts that is done; None without a plan."""
        return min(1.0, self.done / self.planned) if self.planned else None


class RunFeed:
    """A run's attempts in columns, and the figures that a screen shows of them. Blocking; for one thread at a time.

    `refresh` reads the run, `records` reads full records; a figure is computed only when it is asked for.
    """

    def __init__(self, directory: Path, *, reads_stages: bool = True) -> None:
        """`reads_stages` is whether the seconds of single stages are read with all else, not when they are asked for:
        for who shows them at once.
        """
        self.directory = directory
        self.notes = RunNotes(directory)
        """The notes of people on rollouts and turns."""
        self.columns = AttemptColumns(self.notes, None if reads_stages else self._read_late)
        self.live: list[LiveState] = []
        """The attempts in flight, the most recently updated first; for a run that died, those in flight at that
        time.
        """
        self.trainer = FollowedTrainer(directory)
        """What the trainer that learns from the run logged."""
        self._source = ReadOnlySource(directory)
        self._reader = RunReader(self._source)
        self._info: RunInfo | None = None
        self._run_id: str | None = None
        self._seq = 0
        self._facts: dict[str, str] = {}
        self._followers: dict[str, IncrementalView] = {}
        self._review = ReviewQueue(self)
        self._is_reviewed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the store; the columns stay available."""
        self._source.close()

    def refresh(self) -> bool:
        """Read what is new; return whether there was anything.

        If the run cannot be read at this moment, all that was read before stays; if a row is damaged, all rows are
        dropped.

        Raises:
            RunDirectoryError: the run does not exist (any more), is damaged, or was written by a newer rollouthub.
            StoreError: the run could not be read at this moment.
        """
        with self._reading() as connection:
            connection.execute("BEGIN")  # one moment for all of it
            try:
                facts = dict[str, str](connection.execute("SELECT key, value FROM meta"))
                if facts["run_id"] != self._run_id:
                    self._forget()
                is_new = self._read_rows(connection)
                live = [live_state(row) for row in connection.execute(_LIVE)]
            finally:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
        is_new = is_new or live != self.live or facts != self._facts or self._info is None
        self._run_id, self.live = facts["run_id"], live
        status = self._info.status if self._info else None
        is_stale = facts != self._facts or (status == "running") != self._is_running(facts)
        if self._info is None or is_stale:
            with self._reading():
                self._info = self._reader.info
            is_new = is_new or status != self._info.status
        self._facts = facts
        is_new = self.notes.refresh() or is_new
        if self._is_reviewed:
            self._review.catch_up()
        return self.trainer.refresh() or is_new

    def _is_running(self, facts: dict[str, str]) -> bool:
        return facts.get("status") == "running" and self._source.is_live

    def _forget(self) -> None:
        self.columns.clear()
        self._seq = 0

    def _read_rows(self, connection: sqlite3.Connection) -> bool:
        columns = self.columns
        if not self._seq:
            columns.clear()
            try:
                for rows in _chunks(connection.execute(_ALL.format(", ".join(columns.given)))):
                    columns.append(rows)
                columns.check_words(0)
            except BaseException:
                self._forget()
                raise
            self._seq = max(columns.wholes["seq"], default=0)
            return bool(self._seq)
        newest = connection.execute("SELECT max(seq) FROM rollouts").fetchone()[0]
        if newest == self._seq:
            return False
        if newest is None or newest < self._seq:  # an older copy was put in its place
            self._forget()
            return self._read_rows(connection) or True
        rows = connection.execute(_NEW.format(", ".join(columns.given)), (self._seq,)).fetchall()
        self._take(rows)
        self._seq = newest
        return True

    def _take(self, rows: list[Any]) -> None:
        columns = self.columns
        last = columns.ids[-1]
        known = [row for row in rows if row[0] <= last]
        try:
            columns.append(rows[len(known) :])
            for row in known:
                columns.change(self._place_of(row[0]), row)
            columns.check_words(len(columns) - len(rows) + len(known))
        except BaseException:
            self._forget()  # half a batch is in: all is read again
            raise

    def _read_late(self) -> Iterator[list[Any]]:
        """The late columns of the rows that are there: rows are added, and what they hold here never changes."""
        ids, count = self.columns.ids, 0
        with self._reading() as connection:
            for rows in _chunks(connection.execute(_LATE, (ids[-1] if ids else 0,))):
                count += len(rows)
                yield rows
        if count != len(ids):  # an older copy was put in its place
            self._seq = 0
            raise StoreError(f"the run in {self.directory} was replaced while it was read; try again")

    def _place_of(self, row_id: int) -> int:
        ids = self.columns.ids
        # Ids are counted up from 1, so that a row is where its id says; unless somebody else wrote here.
        return row_id - 1 if len(ids) >= row_id and ids[row_id - 1] == row_id else ids.index(row_id)

    @contextmanager
    def _reading(self) -> Generator[sqlite3.Connection]:
        try:
            with self._source.connect() as connection:
                yield connection
        except (TypeError, ValueError, KeyError, OverflowError, struct.error, ValidationError) as error:
            why = invalid_fields(error) if isinstance(error, ValidationError) else describe(error)
            raise RunDirectoryError(
                f"the run in {self.directory} holds what this version of rollouthub does not write "
                f"({why}); it is damaged, or not rollouthub's"
            ) from error

    @property
    def info(self) -> RunInfo:
        """Facts about the run, as of the latest successful refresh."""
        assert self._info is not None, "refresh first"
        return self._info

    def progress(self, now: float | None = None) -> RunProgress:
        """The progress of the run; `now` is Unix time in seconds."""
        now = time.time() if now is None else now
        counts, timeline, info = self.counts, self.timeline, self.info
        eta: float | None = None
        if info.status == "running":
            began = max([info.created_at, *(resumption.at for resumption in info.resumptions)])
            seconds = max(0.0, now - began)
            rate = present_rate(timeline.recent, now, seconds)
            if rate and info.planned is not None:
                eta = max(0, info.planned - counts.effective) / rate
        else:
            seconds = max(0.0, timeline.ended - timeline.began) if counts.attempts else 0.0
            rate = overall_rate(counts.effective, seconds)
        return RunProgress(info.status, counts.effective, info.planned, len(self.live), rate, eta, seconds)

    @property
    def counts(self) -> OutcomeCounts:
        """Outcomes, stops, means, tokens and cost."""
        return self._follow("counts", OutcomeCounts)

    @property
    def timeline(self) -> Timeline:
        """Mean reward, pass rate and speed over time."""
        return self._follow("timeline", Timeline)

    @property
    def histogram(self) -> RewardHistogram:
        """A histogram of rewards."""
        return self._follow("histogram", RewardHistogram)

    @property
    def stages(self) -> StageQuantiles:
        """Durations of the stages."""
        return self._follow("stages", StageQuantiles)

    @property
    def environments(self) -> Lines:
        """A line for each environment."""
        return self._follow("environments", lambda columns: Lines(columns, "environment"))

    @property
    def groups(self) -> Lines:
        """A line for each task's group of samples."""
        return self._follow("groups", lambda columns: Lines(columns, "group_id"))

    def rollouts(
        self,
        sort: str = "seq",
        *,
        descending: bool = False,
        where: str | RolloutFilter = "",
        search: str = "",
        effective: bool = True,
    ) -> RolloutList:
        """Return a list of rollouts, filtered and sorted; after a refresh, its `catch_up` updates it.

        Raises:
            FilterError: `where` is not a valid filter.
            UnknownNameError: `sort` is not a column.
        """
        found = RolloutList(self.columns, sort, descending=descending, where=where, search=search, effective=effective)
        found.catch_up()
        return found

    def places_of(self, rollout_id: str) -> list[int]:
        """Indices of the rows of a rollout's attempts, the earliest attempt first; empty without any.

        Raises:
            RunDirectoryError, StoreError: as for `refresh`.
        """
        last = self.columns.ids[-1] if self.columns.ids else 0
        found = self.query(
            "SELECT id FROM rollouts WHERE rollout_id = ? AND id <= ? ORDER BY attempt", rollout_id, last
        )
        return [self._place_of(row_id) for (row_id,) in found]

    def records(self, places: Iterable[int]) -> Iterator[Rollout]:
        """Yield the full records of rows, one at a time in memory, all from one snapshot.

        Raises:
            RunDirectoryError: a record is damaged or missing.
        """
        ids = self.columns.ids
        with self._reading() as connection:
            connection.execute("BEGIN")
            try:
                for place in places:
                    row_id = ids[place]
                    row = connection.execute("SELECT body FROM rollouts WHERE id = ?", (row_id,)).fetchone()
                    if row is None:
                        raise RunDirectoryError(f"a record of {self.directory} is gone; refresh, and look again")
                    turns = connection.execute(SELECT_TURNS, (row_id << TURN_BITS, row_id + 1 << TURN_BITS))
                    yield rollout_from(row[0], turns)
            finally:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    def previews(self, places: Iterable[int]) -> list[RowPreview]:
        """What these rows were asked, answered and told, in a line each.

        Raises:
            StoreError: the run cannot be read just now.
        """
        with self._reading() as connection:
            return list(read_previews(connection, [self.columns.ids[place] for place in places]))

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a statement on the run's database.

        Raises:
            RunDirectoryError, StoreError: as for `refresh`.
        """
        with self._reading() as connection:
            return connection.execute(statement, values).fetchall()

    async def read_review(self) -> None:
        """Read in a thread what `review` needs, which takes seconds for a large run; the feed may be used meanwhile.

        Raises:
            RunDirectoryError, StoreError: as for `refresh`.
        """
        await self._review.read_ahead()

    @property
    def has_review(self) -> bool:
        """Whether `review` was asked for, so that it costs nothing to ask again."""
        return self._is_reviewed

    @property
    def review(self) -> ReviewQueue:
        """The rollouts that a person should look at, as of the latest refresh.

        Raises:
            RunDirectoryError, StoreError: as for `refresh`.
        """
        if not self._is_reviewed:
            self._review.catch_up()
            self._is_reviewed = True  # from now on each refresh brings it up to date
        return self._review

    @property
    def reader(self) -> RunReader:
        """The store's reader of the run, for data that the feed does not hold."""
        return self._reader

    def next_live(self, after: str | None = None) -> LiveState | None:
        """The attempt in flight that follows the one with this rollout id, wrapping around; None without any."""
        ids = [state.rollout_id for state in self.live]
        if not ids:
            return None
        return self.live[(ids.index(after) + 1) % len(ids) if after in ids else 0]

    def _follow(self, name: str, make: Callable[[AttemptColumns], _Followed]) -> _Followed:
        follower = self._followers.get(name)
        if follower is None:
            follower = self._followers[name] = make(self.columns)
        follower.catch_up()
        return cast(_Followed, follower)


def _chunks(cursor: sqlite3.Cursor) -> Iterator[list[Any]]:
    while rows := cursor.fetchmany(_CHUNK):
        yield rows
