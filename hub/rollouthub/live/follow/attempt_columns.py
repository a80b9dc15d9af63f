"""The attempts of a run, stored as columns: arrays of numbers, and of codes for repeated words. They take a tenth of
the memory that one object per attempt would.

Rows are sorted by id, which is the order of their first commit, so a row's index never changes.
"""

import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from math import inf, isfinite, isnan, nan
from typing import Any, Literal

from rollouthub.live.follow.note_columns import NOTE_KINDS, NoteKind, noted_value
from rollouthub.live.follow.word_column import ABSENT, WordColumn
from rollouthub.rollout import Outcome, Stop
from rollouthub.store import AttemptSummary
from rollouthub.store.notes import NO_NOTES, RolloutNotes, RunNotes
from rollouthub.store.sql_schema import SUMMARY_COLUMNS

Kind = Literal["words", "text", "real", "whole", "flag"]

_KINDS: dict[str, Kind] = {
    "rollout_id": "text",
    **dict.fromkeys(("group_id", "environment", "split", "task_id", "source", "outcome", "stop", "fault"), "words"),
    **dict.fromkeys(("seq", "sample", "attempt", "turns", "tool_calls", "prompt_tokens", "output_tokens"), "whole"),
    **dict.fromkeys(("effective", "passed", "trainable", "suspect"), "flag"),
}
KINDS: dict[str, Kind] = {name: _KINDS.get(name, "real") for name in SUMMARY_COLUMNS}
"""The type of each column: `words` for repeated strings, `text` for mostly distinct ones, `real`, `whole` and
`flag`. Values of type `real`, `flag` or `words` may be absent.
"""
ALL_KINDS: dict[str, Kind | NoteKind] = {**KINDS, **NOTE_KINDS}
"""The types of these columns, and of those that notes make."""
MOST = 2**40
"""Largest magnitude of a count in a row; larger counts are clipped to it, so that sums over all rows fit a 64-bit
integer.

Larger counts occur: a model's server may report any number of tokens, and other programs may have written the run.
"""
LATE = tuple(name for name in SUMMARY_COLUMNS if name.endswith("_seconds"))
"""The columns of single stages, which can be left out until somebody asks for them: they are a fifth of all values."""
_ABSENT = ("reward", "cost")
"""Columns of type `real` in which a row may have no value."""
_EFFECTIVE = SUMMARY_COLUMNS.index("effective")
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_STOPS = {stop.value: stop for stop in Stop}
_KNOWN = {"outcome": _OUTCOMES.keys(), "stop": _STOPS.keys()}

Value = str | float | int | bool | None
LateReader = Callable[[], Iterable[Sequence[Any]]]
"""Reads the `LATE` columns of all present rows."""


class _LateNumbers(dict[str, "array[float]"]):
    """Columns of numbers, of which the late ones are read when one of them is asked for."""

    def __init__(self, read: LateReader) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, name: str) -> "array[float]":
        if name not in LATE:
            raise KeyError(name)
        found = {each: array("d") for each in LATE}
        for rows in self._read():
            for each, values in zip(LATE, zip(*rows, strict=True), strict=True):
                found[each].frombytes(_packed(each, values))
        self.update(found)
        return self[name]


class AttemptColumns:
    """All attempts of a run, one row each."""

    def __init__(self, notes: RunNotes | None = None, late: LateReader | None = None) -> None:
        """With `late`, rows come without the columns of single stages until one of those was asked for."""
        self._late = late
        self.notes = notes
        """The notes of the run, which change without its rows; None if the rows are of no run."""
        self.generation = 0
        """Increases when all rows are read again; figures derived from an earlier generation are invalid."""
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self.generation += 1
        self.ids = array("q")
        self.withdrawn = array("q")
        """Indices of the rows that stopped being effective, in the order in which that happened."""
        self.words = {name: WordColumn() for name, kind in KINDS.items() if kind == "words"}
        self.texts: dict[str, list[str]] = {name: [] for name, kind in KINDS.items() if kind == "text"}
        self.numbers: dict[str, array[float]] = {} if self._late is None else _LateNumbers(self._late)
        late = () if self._late is None else LATE
        self.numbers |= {name: array("d") for name, kind in KINDS.items() if kind == "real" and name not in late}
        self.wholes: dict[str, array[int]] = {name: array("q") for name, kind in KINDS.items() if kind == "whole"}
        self.flags: dict[str, array[int]] = {name: array("b") for name, kind in KINDS.items() if kind == "flag"}
        self.effective = self.flags["effective"]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def given(self) -> Sequence[str]:
        """The columns that rows must have now, after their id: those of the summary, late ones only once asked for."""
        is_whole = self._late is None or LATE[0] in self.numbers
        return SUMMARY_COLUMNS if is_whole else [name for name in SUMMARY_COLUMNS if name not in LATE]

    def append(self, rows: Sequence[Sequence[Any]]) -> None:
        """Add rows of `id` and the columns `given`; the ids must ascend and exceed all present ids.

        Raises:
            TypeError, ValueError, struct.error: a value does not fit its column.
        """
        if not rows:
            return
        ids, *columns = zip(*rows, strict=True)
        if (self.ids and ids[0] <= self.ids[-1]) or list(ids) != sorted(set(ids)):
            raise ValueError(f"the ids of its rows do not ascend ({ids[0]})")
        for name, values in zip(self.given, columns, strict=True):
            self._extend(name, values)
        self.ids.extend(ids)

    def _extend(self, name: str, values: tuple[Any, ...]) -> None:
        match KINDS[name]:
            case "words":
                self.words[name].extend(values)
            case "text":
                if set(map(type, values)) != {str}:
                    raise TypeError(f"{name} of a row is no text")
                self.texts[name].extend(values)
            case "real":
                self.numbers[name].frombytes(_packed(name, values))
            case "whole":
                if name != "seq" and values and not (min(values) >= -MOST and max(values) <= MOST):
                    values = tuple(max(-MOST, min(MOST, int(value))) for value in values)
                self.wholes[name].frombytes(struct.pack(f"{len(values)}q", *values))
            case "flag":
                given = [-1 if value is None else value for value in values] if None in values else values
                self.flags[name].frombytes(struct.pack(f"{len(values)}b", *given))

    def check_words(self, start: int) -> None:
        """Check that every row from an index on has a known outcome and a known stop.

        Raises:
            ValueError: a row has an unknown or missing one.
        """
        for name, known in _KNOWN.items():
            words = self.words[name]
            if not known >= set(words.vocabulary) or ABSENT in words.codes[start:]:
                raise ValueError(f"{name} of a row is none that there is")

    def change(self, place: int, row: Sequence[Any]) -> None:
        """Update an existing row: only whether it is effective can change."""
        is_effective = int(row[1 + _EFFECTIVE])
        self.wholes["seq"][place] = row[1]
        if is_effective < self.effective[place]:
            self.withdrawn.append(place)
        elif is_effective > self.effective[place]:
            self.generation += 1  # never done by the writer; whoever derived something does so again
        self.effective[place] = is_effective

    def value(self, name: str, place: int) -> Value:
        """Return the value of one cell; None where it is absent. Several texts are joined by commas."""
        if name in NOTE_KINDS:
            return noted_value(name, self.notes_at(place))
        match KINDS[name]:
            case "words":
                return self.words[name][place]
            case "text":
                return self.texts[name][place]
            case "real":
                number = self.numbers[name][place]
                return None if isnan(number) else number
            case "whole":
                return self.wholes[name][place]
            case "flag":
                flag = self.flags[name][place]
                return None if flag < 0 else bool(flag)

    def notes_at(self, place: int) -> RolloutNotes:
        """The notes on a row's attempt."""
        if self.notes is None:
            return NO_NOTES
        return self.notes.of(self.texts["rollout_id"][place], self.wholes["attempt"][place])

    def summary(self, place: int) -> AttemptSummary:
        """One row as the store's attempt summary."""
        values: dict[str, Any] = {name: self.value(name, place) for name in SUMMARY_COLUMNS}
        values["outcome"], values["stop"] = _OUTCOMES[values["outcome"]], _STOPS[values["stop"]]
        return AttemptSummary(**values)

    def effective_part(self, name: str, start: int, stop: int) -> Iterable[Any]:
        """A column's values (codes for words) of the effective rows in a range."""
        match KINDS[name]:
            case "words":
                values: Sequence[Any] = self.words[name].codes[start:stop]
            case "text":
                values = self.texts[name][start:stop]
            case "real":
                values = self.numbers[name][start:stop]
            case "whole":
                values = self.wholes[name][start:stop]
            case "flag":
                values = self.flags[name][start:stop]
        counting = self.effective[start:stop]
        return values if all(counting) else compress(values, counting)

    def effective_places(self, start: int, stop: int) -> Iterator[int]:
        """Indices of the effective rows in a range."""
        return compress(range(start, stop), self.effective[start:stop])


def _packed(name: str, values: Sequence[Any]) -> bytes:
    """The values of a column of numbers, packed at a stroke: an eighth of what appending one by one takes."""
    given = [nan if value is None else value for value in values] if name in _ABSENT else values
    # A sum is several times faster than a search; where it is no finite number, one value may be none.
    if not isfinite(sum(given)) and (inf in given or -inf in given):
        raise ValueError(f"{name} of a row is no finite number")
    return struct.pack(f"{len(values)}d", *given)
