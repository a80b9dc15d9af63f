"""Connected regions of one colour in a grid."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby

from rollouthub_servers.drawing.drawn_answer import GROUND, Grid

Span = tuple[int, int]
"""First column and the column after the last one."""
_THICK = 3
"""Side in pixels of the square that a region must contain; otherwise it is a line."""


@dataclass(eq=False)
class Region:
    """A connected region of pixels of one colour."""

    colour: int
    spans: defaultdict[int, list[Span]] = field(default_factory=lambda: defaultdict[int, list[Span]](list))
    """Row → spans from left to right."""
    area: int = 0

    def add(self, row: int, span: Span) -> None:
        """Add a span."""
        self.spans[row].append(span)
        self.area += span[1] - span[0]

    @property
    def is_thick(self) -> bool:
        """Whether the region contains a square of `_THICK` pixels a side."""
        for row in self.spans:
            common = self.spans[row]
            for other in range(row + 1, row + _THICK):
                common = _overlaps(common, self.spans.get(other, []))
            if any(right - left >= _THICK for left, right in common):
                return True
        return False


def regions_of(grid: Grid) -> list[Region]:
    """All regions except the background's, in the order of their first pixels."""
    parents: list[int] = []
    labelled: list[tuple[int, Span, int, int]] = []
    above: list[tuple[Span, int, int]] = []
    for y, row in enumerate(grid):
        current: list[tuple[Span, int, int]] = []
        begin, place = 0, 0
        for colour, pixels in groupby(row):
            end = begin + sum(1 for _ in pixels)
            label = len(parents)
            parents.append(label)
            while place < len(above) and above[place][0][1] <= begin:
                place += 1
            for span, other_colour, other in above[place:]:
                if span[0] >= end:
                    break
                if other_colour == colour:
                    _join(parents, label, other)
            current.append(((begin, end), colour, label))
            labelled.append((y, (begin, end), colour, label))
            begin = end
        above = current
    found: dict[int, Region] = {}
    for y, span, colour, label in labelled:
        if colour != GROUND:
            found.setdefault(_root(parents, label), Region(colour)).add(y, span)
    return list(found.values())


def _root(parents: list[int], label: int) -> int:
    while parents[label] != label:
        parents[label] = parents[parents[label]]
        label = parents[label]
    return label


def _join(parents: list[int], one: int, other: int) -> None:
    one, other = _root(parents, one), _root(parents, other)
    parents[max(one, other)] = min(one, other)


def _overlaps(some: list[Span], others: list[Span]) -> list[Span]:
    """Column ranges that two rows' spans have in common."""
    found: list[Span] = []
    one, other = 0, 0
    while one < len(some) and other < len(others):
        left, right = max(some[one][0], others[other][0]), min(some[one][1], others[other][1])
        if left < right:
            found.append((left, right))
        if some[one][1] < others[other][1]:
            one += 1
        else:
            other += 1
    return found
