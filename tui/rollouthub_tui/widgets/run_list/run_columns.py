"""What the runs in the list are filtered and sorted by."""

from array import array
from collections.abc import Mapping, Sequence
from math import nan

from rollouthub.live.follow import SeenRun
from rollouthub.live.follow.attempt_columns import Kind, Value
from rollouthub.live.follow.filter import FilterFields
from rollouthub.live.follow.run_tallies import Tally
from rollouthub.live.follow.word_column import WordColumn
from rollouthub.statistics.amounts import NONE
from rollouthub.store.notes import NO_NOTES, RolloutNotes
from rollouthub_tui.widgets.run_list.run_words import STYLES, Line, unscored_of

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("run", "folder", "status", "environments", "agent", "model"), "text"),
    **dict.fromkeys(("done", "planned", "scored", "unscored", "reward", "pass_rate", "rate", "age"), "real"),
    "live": "flag",
}
RUN_FIELDS = FilterFields(
    _KINDS,
    {"name": "run", "env": "environments", "environment": "environments", "pass": "pass_rate", "hours": "age"},
    {"status": set(STYLES)},
)
"""The fields of a filter of runs."""
FIGURES = {"done", "scored", "unscored", "reward", "pass_rate", "rate"}
"""Fields that are known of a run once its figures were read."""
SORTS = {
    "name": "run",
    "status": "status",
    "environments": "environments",
    "agent": "agent",
    "model": "model",
    "done": "done",
    "unscored": "unscored",
    "pace": "rate",
    "reward": "reward",
    "passes": "pass_rate",
    "when": "age",
    "age": "age",
}
"""Column of the table → the field that it is sorted by."""


def facts_of(run: SeenRun, line: Line, tally: Tally | None, rate: float | None, now: float) -> dict[str, Value]:
    """The fields of a run; None where one is unknown. Its age is in hours."""
    known = tally is not None and tally.done is not None
    return {
        "run": line.name,
        "folder": str(run.directory.parent),
        "status": line.status,
        **{name: None if text == NONE else text or None for name, text in _names(line).items()},
        "done": tally.done if tally else None,
        "planned": line.planned,
        "scored": tally.scored if tally else None,
        "unscored": unscored_of(tally) if known else None,
        "reward": tally.mean_reward if tally else None,
        "pass_rate": tally.pass_rate if tally else None,
        "rate": rate if line.is_live else None,
        "age": None if line.created_at is None else max(0.0, now - line.created_at) / 3600,
        "live": line.is_live,
    }


def _names(line: Line) -> dict[str, str]:
    return {"environments": line.environments, "agent": line.agent, "model": line.model}


class RunColumns:
    """The fields of runs as columns, for a filter."""

    def __init__(self, rows: Sequence[Mapping[str, Value]]) -> None:
        self._rows = rows
        self.words: dict[str, WordColumn] = {}
        self.wholes: dict[str, array[int]] = {}
        self.texts = {name: [str(row[name] or "") for row in rows] for name, kind in _KINDS.items() if kind == "text"}
        self.numbers = {
            name: array("d", [nan if (value := row[name]) is None else float(value) for row in rows])
            for name, kind in _KINDS.items()
            if kind == "real"
        }
        self.flags = {"live": array("b", [bool(row["live"]) for row in rows])}

    def value(self, name: str, place: int) -> Value:
        """The value of a field of one run; None where it is unknown."""
        return self._rows[place][name]

    def notes_at(self, place: int) -> RolloutNotes:
        """None: notes are on rollouts."""
        return NO_NOTES
