"""The rollouts of a run that a person should look at, each with the reasons; reviewed ones leave the queue.

| reason | which |
| --- | --- |
| suspect score | the verifier says why the reward may be wrong |
| verifier fault | the verifier broke |
| judge and rule disagree | their weighted components are on opposite sides of 0.5, and at least 0.5 apart |
| sometimes solved | a sample whose verdict most others of its task contradict; all, if as many passed as failed |
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anyio import to_thread

from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.group_tables import Lines
from rollouthub.store.read_only_source import ReadOnlySource

if TYPE_CHECKING:
    from rollouthub.live.follow.run_feed import RunFeed

SUSPECT, VERIFIER_FAULT = "suspect score", "verifier fault"
JUDGE_DISAGREES, SOMETIMES_SOLVED = "judge and rule disagree", "sometimes solved"
_MIDDLE, _APART = 0.5, 0.5
# Of the calls only the roles are read, and only where there are calls: their messages may be long.
_JUDGED = (
    "SELECT id, json_extract(body, '$.score.components', '$.score.judge_calls[0].role', "
    "'$.score.judge_calls[#-1].role') FROM rollouts "
    """WHERE id > ? AND id <= ? AND instr(body, '"judge_calls":[{') AND json_valid(body) ORDER BY id"""
)


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A rollout to review."""

    place: int
    """Index of its row in the feed's columns."""
    rollout_id: str
    attempt: int
    reasons: tuple[str, ...]
    """Why, the gravest first."""


class ReviewQueue:
    """The queue of a followed run. Blocking; ask after each refresh of the feed."""

    def __init__(self, feed: "RunFeed") -> None:
        self._feed = feed
        self._seen: tuple[int, ...] = ()
        self._judged_up_to = 0
        self._disagreeing: set[int] = set()
        self._reasons: dict[int, tuple[str, ...]] = {}
        self._generation = -1
        self.places: set[int] = set()
        """Indices of the rows that wait for a review."""
        self.version = 0
        """Increases when the queue may have changed."""

    async def read_ahead(self) -> None:
        """Read in a thread, over its own connection, what the first `catch_up` would read: the text of all records.

        Raises:
            RunDirectoryError: the run no longer exists, or is damaged.
            StoreError: the run could not be read at this moment.
        """
        columns = self._feed.columns
        generation, last = columns.generation, _last_id(columns)
        if self._generation == generation:
            return
        found = await to_thread.run_sync(_judged_beside, self._feed.directory, last)
        if columns.generation == generation:
            self._generation, self._judged_up_to, self._disagreeing = generation, last, found

    def catch_up(self) -> "ReviewQueue":
        """Bring the queue up to date; what costs something is done only when rows or notes changed.

        Raises:
            RunDirectoryError: the run no longer exists, or is damaged.
            StoreError: the run could not be read at this moment.
        """
        columns, notes = self._feed.columns, self._feed.notes
        rows = (columns.generation, len(columns), len(columns.withdrawn))
        if self._seen[:3] != rows:
            self._read_judged(columns)
            self._reasons = dict(_reasons(columns, self._feed.groups, self._disagreeing))
        if self._seen != (*rows, notes.version):
            self._seen = (*rows, notes.version)
            self.places = {place for place in self._reasons if not columns.notes_at(place).is_reviewed}
            self.version += 1
        return self

    @property
    def total(self) -> int:
        """Number of rollouts with a reason, reviewed ones included."""
        return len(self._reasons)

    def __len__(self) -> int:
        return len(self.places)

    def reasons(self, place: int) -> tuple[str, ...]:
        """Why a row should be reviewed; empty if there is no reason."""
        return self._reasons.get(place, ())

    def items(self) -> list[ReviewItem]:
        """What waits for a review, in the order of commits."""
        columns = self._feed.columns
        ids, attempts = columns.texts["rollout_id"], columns.wholes["attempt"]
        return [ReviewItem(place, ids[place], attempts[place], self._reasons[place]) for place in sorted(self.places)]

    def _read_judged(self, columns: AttemptColumns) -> None:
        """Read the components of the rows that a judge scored since the last time."""
        if self._generation != columns.generation:
            self._generation, self._judged_up_to = columns.generation, 0
            self._disagreeing.clear()
        last = _last_id(columns)
        self._disagreeing |= _disagreeing(self._feed.query(_JUDGED, self._judged_up_to, last))
        self._judged_up_to = last


def _last_id(columns: AttemptColumns) -> int:
    return columns.ids[-1] if columns.ids else 0


def _judged_beside(directory: Path, last: int) -> set[int]:
    source = ReadOnlySource(directory)
    try:
        with source.connect() as connection:
            return _disagreeing(connection.execute(_JUDGED, (0, last)))
    finally:
        source.close()


def _disagreeing(rows: Iterable[tuple[int, Any]]) -> set[int]:
    return {row_id for row_id, text in rows if _disagree(text)}


def _reasons(columns: AttemptColumns, groups: Lines, disagreeing: set[int]) -> Iterable[tuple[int, tuple[str, ...]]]:
    outcomes, codes = columns.words["outcome"], columns.words["group_id"].codes
    broken, suspects, verdicts = outcomes.code("verifier_failed"), columns.flags["suspect"], columns.flags["passed"]
    wanted = [groups.minority(place) for place in range(len(groups))]
    for place in columns.effective_places(0, len(columns)):
        found: list[str] = []
        if suspects[place] > 0:
            found.append(SUSPECT)
        if outcomes.codes[place] == broken:
            found.append(VERIFIER_FAULT)
        if disagreeing and columns.ids[place] in disagreeing:
            found.append(JUDGE_DISAGREES)
        if (verdict := verdicts[place]) >= 0 and verdict in wanted[codes[place]]:
            found.append(SOMETIMES_SOLVED)
        if found:
            yield place, tuple(found)


def _disagree(text: Any) -> bool:
    """Whether a judge and the rules of a reward come to opposite verdicts; False for what is no reward of both."""
    try:
        components, *roles = json.loads(text)
        parts = cast(dict[str, dict[str, float]], components or {}).items()
        weighed = [(name, float(part["value"]), float(part.get("weight", 1.0))) for name, part in parts]
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        return False
    values = [(name, value) for name, value, weight in weighed if weight and isfinite(value)]
    judged = [value for name, value in values if name in roles or "judge" in name.casefold()]
    ruled = [value for name, value in values if not (name in roles or "judge" in name.casefold())]
    return bool(judged and ruled) and _are_opposite(_mean(judged), _mean(ruled))


def _are_opposite(one: float, other: float) -> bool:
    return (one >= _MIDDLE) != (other >= _MIDDLE) and abs(one - other) >= _APART


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
