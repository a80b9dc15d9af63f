"""The rollouts of a run by what they have in common: tools, finish reasons, stops, tags, and faults by their cause."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, Literal, get_args

from rollouthub.analysis.run_doctor.causes import fault_key
from rollouthub.errors import StoreError
from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.row_previews import MOST_BODY
from rollouthub.statistics.intervals import Estimate
from rollouthub.statistics.pass_at_k import GroupCounts, summarise_groups
from rollouthub.store.notes import RunNotes
from rollouthub.store.read_only_source import ReadOnlySource
from rollouthub.store.sql_schema import TURN_BITS

Kind = Literal["tools", "finishes", "stops", "tags", "faults"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MOST_LINES = 500
"""Most lines of a kind: an agent may call tools by any name, and messages may differ in ways that nobody foresaw."""
REST = "(all others)"
"""Name of the line for what is beyond that."""
_CHUNK = 256
"""Rollouts whose turns are read at a time."""
_MESSAGE, _NAME = 300, 200
_BODY = f"CASE WHEN length(turns.body) <= {MOST_BODY} AND json_valid(turns.body) THEN turns.body ELSE '{{}}' END"
_NEXT = f"SELECT max(id) FROM (SELECT id FROM rollouts WHERE id >= ? AND id <= ? ORDER BY id LIMIT {_CHUNK})"
"""The last row of those that are read next: a stranger's ids may be far apart."""
_SPAN = "turns.id >= ? AND turns.id < ?"
_TOOLS = f"""
SELECT turns.id >> {TURN_BITS}, substr(json_extract(call.value, '$.name'), 1, {_NAME}), count(*),
    sum(json_extract(call.value, '$.result.is_error') IS 1)
FROM turns, json_each({_BODY}, '$.tool_calls') AS call
WHERE {_SPAN} AND call.type = 'object' GROUP BY 1, 2
"""
_FINISHES = f"""
SELECT turns.id >> {TURN_BITS}, substr(json_extract({_BODY}, '$.finish_reason'), 1, {_NAME}), count(*), 0
FROM turns WHERE {_SPAN} GROUP BY 1, 2
"""
_FAULT = "CASE WHEN json_valid(body) THEN json_extract(body, '$.faults[0].{}') END"
_FAULTS = f"""
SELECT id, fault, {_FAULT.format("phase")}, {_FAULT.format("status")},
    substr({_FAULT.format("message")}, 1, {_MESSAGE})
FROM rollouts WHERE fault IS NOT NULL AND id >= ? AND id < ?
"""


@dataclass(frozen=True, slots=True)
class BreakdownLine:
    """The rollouts that share one thing. Figures are over those attempts that no later one replaced."""

    name: str
    places: Sequence[int]
    """Indices of all its rows in the feed's columns, replaced attempts included, ascending."""
    times: int
    """Calls of a tool, turns with a finish reason, attempts with a fault; else rollouts."""
    errors: int
    """Calls of a tool that gave an error; else rollouts without a score."""
    rollouts: int
    scored: int
    mean_reward: float | None
    """Mean over scored rollouts; None without any."""
    interval: Estimate | None
    """The mean with its interval, as elsewhere; None if nothing is scored."""
    pass_rate: float | None
    example: str = ""
    """The message of the latest fault of a line of faults."""


@dataclass
class _Found:
    """What was read of one name so far."""

    ids: "array[int]" = field(default_factory=lambda: array("q"))
    times: int = 0
    errors: int = 0
    example: str = ""


@dataclass(frozen=True)
class RowsCopy:
    """What a breakdown needs of a feed's rows and notes, copied in the feed's own thread."""

    ids: "array[int]"
    effective: "array[int]"
    rewards: "array[float]"
    passed: "array[int]"
    groups: "array[int]"
    environments: "array[int]"
    stops: "array[int]"
    stop_names: Sequence[str]
    tags: Mapping[str, Sequence[int]]
    """Tag → indices of the rows that have it."""

    @classmethod
    def of(cls, columns: AttemptColumns, notes: RunNotes) -> "RowsCopy":
        """Copy the rows as they are."""
        return cls(
            columns.ids[:],
            columns.effective[:],
            columns.numbers["reward"][:],
            columns.flags["passed"][:],
            columns.words["group_id"].codes[:],
            columns.words["environment"].codes[:],
            columns.words["stop"].codes[:],
            tuple(columns.words["stop"].vocabulary),
            _tagged(columns, notes),
        )


def _tagged(columns: AttemptColumns, notes: RunNotes) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    noted = {(rollout_id, attempt): held.all_tags for rollout_id, attempt, held in notes if held.all_tags}
    if not noted:
        return found
    attempts = columns.wholes["attempt"]
    for place, rollout_id in enumerate(columns.texts["rollout_id"]):
        for tag in noted.get((rollout_id, attempts[place]), ()):
            found.setdefault(tag, []).append(place)
    return found


class Breakdowns:
    """Reads a run's turns and faults over its own connection, each once, in pieces. Blocking: for one other thread."""

    def __init__(self, directory: Path) -> None:
        self._source = ReadOnlySource(directory)
        self._lock = Lock()
        self._is_closed = False
        self._found: dict[Kind, dict[str, _Found]] = {"tools": {}, "finishes": {}, "faults": {}}
        self.read_up_to = 0
        """Id of the last row whose turns were read; rows have ids from 1 on."""

    def read_more(self, last: int) -> None:
        """Read the turns and faults of the next rows, up to the one with the id `last`.

        Raises:
            RunDirectoryError: the run no longer exists, or is damaged.
            StoreError: the run could not be read at this moment.
        """
        start = self.read_up_to + 1
        with self._lock:
            if self._is_closed:
                raise StoreError("the run is not read any more")
            with self._source.connect() as connection:
                (found,) = connection.execute(_NEXT, (start, last)).fetchone()
                stop = (last if found is None else found) + 1
                turns = (start << TURN_BITS, stop << TURN_BITS)
                tools = connection.execute(_TOOLS, turns).fetchall()
                finishes = connection.execute(_FINISHES, turns).fetchall()
                faults = connection.execute(_FAULTS, (start, stop)).fetchall()
        self._take("tools", tools)
        self._take("finishes", finishes)
        self._take_faults(faults)
        self.read_up_to = stop - 1

    def _take(self, kind: Kind, rows: Iterable[tuple[int, Any, int, int]]) -> None:
        for row_id, name, times, errors in rows:
            if name is not None:
                self._add(kind, str(name), row_id, times, errors)

    def _take_faults(self, rows: Iterable[tuple[int, str, Any, Any, Any]]) -> None:
        for row_id, fault, phase, status, message in rows:
            self._add("faults", fault_key(fault, phase, status, str(message or "")), row_id, 1, 0, str(message or ""))

    def _add(self, kind: Kind, name: str, row_id: int, times: int, errors: int, example: str = "") -> None:
        lines = self._found[kind]
        if name not in lines and len(lines) >= MOST_LINES:
            name = REST
        found = lines.setdefault(name, _Found())
        if not found.ids or found.ids[-1] != row_id:
            found.ids.append(row_id)
        found.times += times
        found.errors += errors
        found.example = example

    def lines(self, rows: RowsCopy) -> dict[Kind, list[BreakdownLine]]:
        """The lines of each kind, the most frequent first."""
        places = {row_id: place for place, row_id in enumerate(rows.ids)}
        made: dict[Kind, list[BreakdownLine]] = {}
        for kind, found in self._found.items():
            lines = [
                _line(
                    rows,
                    name,
                    [places[row_id] for row_id in each.ids if row_id in places],
                    each.times,
                    each.errors if kind == "tools" else None,
                    each.example,
                )
                for name, each in found.items()
            ]
            made[kind] = lines
        stops: dict[str, list[int]] = {}
        for place, code in enumerate(rows.stops):
            if rows.effective[place]:
                stops.setdefault(rows.stop_names[code], []).append(place)
        made["stops"] = [_line(rows, name, members) for name, members in stops.items()]
        made["tags"] = [_line(rows, tag, members) for tag, members in islice(rows.tags.items(), MOST_LINES)]
        for lines in made.values():
            lines.sort(key=lambda line: (-line.rollouts, -line.times, line.name))
        return made

    def close(self) -> None:
        """Close the connection once a read in progress has finished."""
        with self._lock:
            self._is_closed = True
            self._source.close()


def _line(
    rows: RowsCopy,
    name: str,
    places: Sequence[int],
    times: int | None = None,
    errors: int | None = None,
    example: str = "",
) -> BreakdownLine:
    counted = [place for place in places if rows.effective[place]]
    alike = Counter(_groups(rows, counted)).items()  # taken together as for the whole run, to the last digit
    overall = summarise_groups((replace(group, alike=tasks) for group, tasks in alike), (1,)).overall
    unscored = len(counted) - overall.scored
    return BreakdownLine(
        name,
        array("q", places),
        len(counted) if times is None else times,
        unscored if errors is None else errors,
        len(counted),
        overall.scored,
        overall.mean_reward,
        overall.mean_estimate,
        overall.pass_rate,
        example,
    )


def _groups(rows: RowsCopy, places: Iterable[int]) -> Iterator[GroupCounts]:
    """The counts of the samples at these places, by task, without the tasks' names."""
    members: dict[int, list[int]] = {}
    for place in places:
        members.setdefault(rows.groups[place], []).append(place)
    for found in members.values():
        rewards = [reward for place in found if (reward := rows.rewards[place]) == reward]
        verdicts = [rows.passed[place] for place in found if rows.passed[place] >= 0]
        yield GroupCounts(
            environment=str(rows.environments[found[0]]),
            task_id="",
            planned=len(found),
            scored=len(rewards),
            passed=sum(verdicts) if verdicts else None,
            reward_sum=sum(rewards),
            reward_sq_sum=sum(reward * reward for reward in rewards),
            judged=len(verdicts),
        )
