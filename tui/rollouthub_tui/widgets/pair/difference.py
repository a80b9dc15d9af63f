"""Two transcripts as rows side by side: turns are matched first, then the lines of each pair of turns."""

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from rollouthub_tui.widgets.pair.alignment import align
from rollouthub_tui.widgets.pair.plain_transcript import TurnLines

SAME, CHANGED, GONE, NEW = " ", "~", "-", "+"
"""Marks of a row: equal in both, different, only in the first, only in the second."""
_NONE = -1
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_MOST_WORDS = 400
"""Most words of a line whose words are compared one by one."""


@dataclass(slots=True)
class Difference:
    """Two transcripts and the rows that align them: each row has a mark and a line of each transcript."""

    first: list[str] = field(default_factory=list[str])
    second: list[str] = field(default_factory=list[str])
    """All lines of each transcript."""
    first_turns: "array[int]" = field(default_factory=lambda: array("i"))
    second_turns: "array[int]" = field(default_factory=lambda: array("i"))
    """For each line, the index of its turn."""
    marks: list[str] = field(default_factory=list[str])
    lefts: "array[int]" = field(default_factory=lambda: array("i"))
    rights: "array[int]" = field(default_factory=lambda: array("i"))
    """For each row, the index of its line in each transcript; -1 if it has none."""

    def __len__(self) -> int:
        return len(self.marks)

    def left(self, row: int) -> str | None:
        """The row's line in the first transcript; None if it has none."""
        line = self.lefts[row]
        return None if line < 0 else self.first[line]

    def right(self, row: int) -> str | None:
        """The row's line in the second transcript; None if it has none."""
        line = self.rights[row]
        return None if line < 0 else self.second[line]

    @property
    def changes(self) -> list[int]:
        """The first row of each stretch of rows that differ."""
        marks = self.marks
        return [row for row, mark in enumerate(marks) if mark != SAME and (not row or marks[row - 1] == SAME)]

    def add(self, mark: str, left: int, right: int) -> None:
        """Add a row."""
        self.marks.append(mark)
        self.lefts.append(left)
        self.rights.append(right)


def difference_of(first: Sequence[TurnLines], second: Sequence[TurnLines]) -> Difference:
    """Align two transcripts."""
    made = Difference()
    starts = _gather(first, made.first, made.first_turns)
    other_starts = _gather(second, made.second, made.second_turns)
    spoken, answered = (sum(turn.place >= 0 for turn in turns) for turns in (first, second))
    # What comes after the turns is held against what does in the other, never against a turn.
    for start, stop, other_start, other_stop in (
        (0, spoken, 0, answered),
        (spoken, len(first), answered, len(second)),
    ):
        stretches = align(
            [turn.lines for turn in first[start:stop]], [turn.lines for turn in second[other_start:other_stop]]
        )
        for is_same, low, high, other_low, other_high in stretches:
            here, there = range(start + low, start + high), range(other_start + other_low, other_start + other_high)
            for turn, other in zip_longest(here, there):
                lines = range(0) if turn is None else range(starts[turn], starts[turn + 1])
                others = range(0) if other is None else range(other_starts[other], other_starts[other + 1])
                _add_turn(made, lines, others, is_same=is_same)
    return made


def _gather(turns: Sequence[TurnLines], lines: list[str], places: "array[int]") -> list[int]:
    starts = [0]
    for turn in turns:
        lines.extend(turn.lines)
        places.extend([turn.place] * len(turn.lines))
        starts.append(len(lines))
    return starts


def _add_turn(made: Difference, lines: range, others: range, *, is_same: bool) -> None:
    if is_same:
        for left, right in zip(lines, others, strict=True):
            made.add(SAME, left, right)
        return
    first, second = made.first[lines.start : lines.stop], made.second[others.start : others.stop]
    for is_alike, low, high, other_low, other_high in align(first, second):
        here, there = lines[low:high], others[other_low:other_high]
        if is_alike:
            for left, right in zip(here, there, strict=True):
                made.add(SAME, left, right)
            continue
        for left, right in zip_longest(here, there, fillvalue=_NONE):
            made.add(GONE if right == _NONE else NEW if left == _NONE else CHANGED, left, right)


Piece = tuple[str, bool]
"""A part of a line, and whether it differs from the other line."""


def words_apart(left: str, right: str) -> tuple[list[Piece], list[Piece]]:
    """Both lines in pieces that are equal or differ; whole lines if they have little in common."""
    first, second = _WORD.findall(left), _WORD.findall(right)
    if max(len(first), len(second)) > _MOST_WORDS:
        return _ends_apart(left, right)
    one: list[Piece] = []
    other: list[Piece] = []
    alike = 0
    for is_same, low, high, other_low, other_high in align(first, second):
        if low < high:
            one.append(("".join(first[low:high]), not is_same))
        if other_low < other_high:
            other.append(("".join(second[other_low:other_high]), not is_same))
        alike += is_same * sum(len(word) for word in first[low:high] if not word.isspace())
    if alike * 4 < max(len(left), len(right)):
        return [(left, True)], [(right, True)]
    return one, other


def _ends_apart(left: str, right: str) -> tuple[list[Piece], list[Piece]]:
    """Both long lines in pieces: only their common beginning and end are equal."""
    most = min(len(left), len(right))
    head = next((place for place in range(most) if left[place] != right[place]), most)
    tail = next((place for place in range(most - head) if left[-1 - place] != right[-1 - place]), most - head)

    def pieces(line: str) -> list[Piece]:
        parts = [(line[:head], False), (line[head : len(line) - tail], True), (line[len(line) - tail :], False)]
        return [part for part in parts if part[0]]

    return pieces(left), pieces(right)
