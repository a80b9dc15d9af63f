"""The attempts of a run as columns: arrays of numbers and of words' codes, a tenth of what objects would take.

Rows are in the order of their ids, which is the order of their first commit, so that a row's place never changes.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from math import inf, isnan, nan
from typing import Any, Literal

from rollouthub.live.follow.word_column import ABSENT, WordColumn
from rollouthub.rollout import Outcome, Stop
from rollouthub.store import AttemptSummary
from rollouthub.store.sql_schema import SUMMARY_COLUMNS

Kind = Literal["words", "text", "real", "whole", "flag"]

_KINDS: dict[str, Kind] = {
    "rollout_id": "text",
    **dict.fromkeys(("group_id", "environment", "split", "task_id", "source", "outcome", "stop", "fault"), "words"),
    **dict.fromkeys(("seq", "sample", "attempt", "turns", "tool_calls", "prompt_tokens", "output_tokens"), "whole"),
    **dict.fromkeys(("effective", "passed", "trainable", "suspect"), "flag"),
}
KINDS: dict[str, Kind] = {name: _KINDS.get(name, "real") for name in SUMMARY_COLUMNS}
"""What each column holds. `words` repeat, `text` does not; a `real` or `flag` may be absent, as `words` may."""
MOST = 2**40
"""Of what is counted in a row; sums over as many rows as there may be stay whole numbers of the machine.

A model's server may say that an answer had more tokens than that, or somebody may have written it into the run.
"""
_ABSENT = ("reward", "cost")
"""The columns of reals that a row may have no value in."""
_EFFECTIVE = SUMMARY_COLUMNS.index("effective")
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_STOPS = {stop.value: stop for stop in Stop}
_KNOWN = {"outcome": _OUTCOMES.keys(), "stop": _STOPS.keys()}

Value = str | float | int | bool | None


class AttemptColumns:
    """Every attempt of a run, a place each."""

    def __init__(self) -> None:
        self.generation = 0
        """Grows when everything is read anew: what was derived before does not hold any more."""
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self.generation += 1
        self.ids = array("q")
        self.withdrawn = array("q")
        """Places of rows that counted for their sample and do not any more, in the order that this happened."""
        self.words = {name: WordColumn() for name, kind in KINDS.items() if kind == "words"}
        self.texts: dict[str, list[str]] = {name: [] for name, kind in KINDS.items() if kind == "text"}
        self.numbers: dict[str, array[float]] = {name: array("d") for name, kind in KINDS.items() if kind == "real"}
        self.wholes: dict[str, array[int]] = {name: array("q") for name, kind in KINDS.items() if kind == "whole"}
        self.flags: dict[str, array[int]] = {name: array("b") for name, kind in KINDS.items() if kind == "flag"}
        self.effective = self.flags["effective"]

    def __len__(self) -> int:
        return len(self.ids)

    def append(self, rows: Sequence[Sequence[Any]]) -> None:
        """Add rows of `id` and the summary's columns, their ids ascending and above all that are there.

        Raises:
            TypeError, ValueError, struct.error: a value is not what its column holds.
        """
        if not rows:
            return
        ids, *columns = zip(*rows, strict=True)
        if (self.ids and ids[0] <= self.ids[-1]) or list(ids) != sorted(set(ids)):
            raise ValueError(f"the ids of its rows do not ascend ({ids[0]})")
        for name, values in zip(SUMMARY_COLUMNS, columns, strict=True):
            self._extend(name, values)
        self.ids.extend(ids)

    def _extend(self, name: str, values: tuple[Any, ...]) -> None:
        match KINDS[name]:
            case "words":
                self.words[name].extend(values)
            case "text":
                if any(type(value) is not str for value in values):
                    raise TypeError(f"{name} of a row is no text")
                self.texts[name].extend(values)
            # Packed at a stroke: an eighth of what appending one by one takes.
            case "real":
                given = [nan if value is None else value for value in values] if name in _ABSENT else values
                if inf in given or -inf in given:
                    raise ValueError(f"{name} of a row is no finite number")
                self.numbers[name].frombytes(struct.pack(f"{len(values)}d", *given))
            case "whole":
                if name != "seq" and values and not (min(values) >= -MOST and max(values) <= MOST):
                    values = tuple(max(-MOST, min(MOST, int(value))) for value in values)
                self.wholes[name].frombytes(struct.pack(f"{len(values)}q", *values))
            case "flag":
                given = [-1 if value is None else value for value in values]
                self.flags[name].frombytes(struct.pack(f"{len(values)}b", *given))

    def check_words(self, start: int) -> None:
        """Make sure that every attempt from a place on has an outcome and a stop that there are.

        Raises:
            ValueError: one has not.
        """
        for name, known in _KNOWN.items():
            words = self.words[name]
            if not known >= set(words.vocabulary) or ABSENT in words.codes[start:]:
                raise ValueError(f"{name} of a row is none that there is")

    def change(self, place: int, row: Sequence[Any]) -> None:
        """Take in a row that is there already: all that ever changes is whether it counts."""
        is_effective = int(row[1 + _EFFECTIVE])
        self.wholes["seq"][place] = row[1]
        if is_effective < self.effective[place]:
            self.withdrawn.append(place)
        elif is_effective > self.effective[place]:
            self.generation += 1  # never done by the writer; whoever derived something does so again
        self.effective[place] = is_effective

    def value(self, name: str, place: int) -> Value:
        """One cell; None where it is absent."""
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

    def summary(self, place: int) -> AttemptSummary:
        """One row, as the store tells it."""
        values: dict[str, Any] = {name: self.value(name, place) for name in SUMMARY_COLUMNS}
        values["outcome"], values["stop"] = _OUTCOMES[values["outcome"]], _STOPS[values["stop"]]
        return AttemptSummary(**values)

    def effective_part(self, name: str, start: int, stop: int) -> Iterable[Any]:
        """A column's values (codes for words) of the rows in a stretch that count for their samples."""
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
        """The rows in a stretch that count for their samples."""
        return compress(range(start, stop), self.effective[start:stop])
