"""Recognises figures in a drawing: the kind of each region by the shape of its outline."""

import math
from dataclasses import dataclass
from itertools import pairwise

from rollouthub_servers.drawing.drawn_answer import GROUND, NAMES, Grid
from rollouthub_servers.drawing.regions import Region, Span, regions_of
from rollouthub_servers.drawing.scene import FigureKind
from rollouthub_servers.visual.canvas import Point

SMALLEST = 60
"""Least pixels of a figure; smaller regions and mere lines are clutter."""
_CLUTTER = 1500
"""Pixels of clutter that count as one additional figure."""
_CONVEX, _ROUND, _STRAIGHT, _TRIANGULAR = 0.88, 0.925, 0.93, 0.74
"""The least shares that a figure fills of its convex hull, that the hull fills of the circle and of the rectangle
around it, and that the largest triangle fills of the hull. A triangle of 20 pixels has 0.78, a half disc 0.65.
"""
_RAGGED = 0.4
"""Pixels by which a corner of a round outline may stick out."""
_EVEN, _LONG = 1.2, 1.5
"""The largest ratio of length to width of a square, and the least of a rectangle."""
_SOLID, _HOLLOW = 0.04, (0.08, 0.8)
"""The largest share of background within the outline of a solid figure, and the range of it for a ring."""


@dataclass(frozen=True)
class SeenFigure:
    """A recognised region with its outline."""

    colour: str
    kind: FigureKind | None
    """The kind of figure; None if it is none of the known kinds."""
    x: float
    y: float
    """With `x`, the centre of the outline's area."""
    area: int
    """Pixels within the outline."""
    outline: dict[int, Span]
    """Row → first column and the column after the last one."""

    @property
    def name(self) -> str:
        """The figure's name in feedback."""
        return f"{self.colour} {self.kind or 'shape'}"

    @property
    def sides(self) -> tuple[int, int, int, int]:
        """Left, top, right and bottom edges."""
        lefts, rights = zip(*self.outline.values(), strict=True)
        return min(lefts), min(self.outline), max(rights), max(self.outline) + 1

    def encloses(self, other: "SeenFigure") -> bool:
        """Whether the other figure lies within this outline."""
        rows = ((self.outline.get(row, (0, 0)), span) for row, span in other.outline.items())
        return other is not self and all(left <= inner[0] and inner[1] <= right for (left, right), inner in rows)


@dataclass(frozen=True)
class SeenDrawing:
    """Everything recognised in a drawing."""

    figures: list[SeenFigure]
    """The figures, the largest first."""
    clutter: int
    """Number of additional figures that all clutter together counts as."""


def look_at(grid: Grid) -> SeenDrawing:
    """Recognise the figures in a drawing."""
    figures: list[SeenFigure] = []
    clutter = 0
    for region in regions_of(grid):
        if region.area < SMALLEST or not region.is_thick:
            clutter += region.area
        else:
            figures.append(_seen(region, grid))
    figures.sort(key=lambda figure: -figure.area)
    return SeenDrawing(figures, clutter // _CLUTTER)


def _seen(region: Region, grid: Grid) -> SeenFigure:
    outline = {row: (spans[0][0], spans[-1][1]) for row, spans in region.spans.items()}
    area = sum(right - left for left, right in outline.values())
    x = sum((left + right) / 2 * (right - left) for left, right in outline.values()) / area
    y = sum((row + 0.5) * (right - left) for row, (left, right) in outline.items()) / area
    ground = sum(grid[row][left:right].count(GROUND) for row, (left, right) in outline.items())
    columns = _columns(region)
    # Rows fill what opens upwards, columns what opens sideways.
    filled = min(area, sum(bottom - top for top, bottom in columns.values()))
    ends: list[Point] = [(end, row + 0.5) for row, span in outline.items() for end in span]
    ends += [(column + 0.5, end) for column, span in columns.items() for end in span]
    return SeenFigure(NAMES[region.colour], _kind(_hull(ends), filled, ground / area), x, y, area, outline)


def _columns(region: Region) -> dict[int, Span]:
    """Column → first row and the row after the last one."""
    tops: dict[int, int] = {}
    bottoms: dict[int, int] = {}
    for row, spans in region.spans.items():
        for left, right in spans:
            for column in range(left, right):
                tops.setdefault(column, row)
                bottoms[column] = row + 1
    return {column: (top, bottoms[column]) for column, top in tops.items()}


def _kind(hull: list[Point], filled: int, hollow: float) -> FigureKind | None:
    area = _area(hull)
    if filled < _CONVEX * area:
        return None
    wide, long = _rectangle(hull)
    if _is_round(hull, area) and long <= _EVEN * wide:
        return "circle" if hollow <= _SOLID else "ring" if _HOLLOW[0] <= hollow <= _HOLLOW[1] else None
    if hollow > _SOLID:
        return None
    if _largest_triangle(hull) >= _TRIANGULAR * area:
        return "triangle"
    if area >= _STRAIGHT * wide * long:
        return "square" if long <= _EVEN * wide else "rectangle" if long >= _LONG * wide else None
    return None


def _hull(points: list[Point]) -> list[Point]:
    """The convex hull, by Andrew's monotone chain."""
    points = sorted(set(points))
    halves: list[list[Point]] = []
    for ordered in (points, points[::-1]):
        half: list[Point] = []
        for point in ordered:
            while len(half) > 1 and _cross(half[-2], half[-1], point) <= 0:
                half.pop()
            half.append(point)
        halves.append(half[:-1])
    return halves[0] + halves[1]


def _cross(origin: Point, one: Point, other: Point) -> float:
    return (one[0] - origin[0]) * (other[1] - origin[1]) - (one[1] - origin[1]) * (other[0] - origin[0])


def _area(hull: list[Point]) -> float:
    return sum(_cross(hull[0], one, other) for one, other in pairwise(hull)) / 2


def _is_round(hull: list[Point], area: float) -> bool:
    lefts, tops = zip(*hull, strict=True)
    x, y = (min(lefts) + max(lefts)) / 2, (min(tops) + max(tops)) / 2
    return area >= _ROUND * math.pi * (max(math.hypot(left - x, top - y) for left, top in hull) - _RAGGED) ** 2


def _rectangle(hull: list[Point]) -> tuple[float, float]:
    """The shorter and the longer side of the smallest rectangle around the hull with a side along one of its edges."""
    best = (math.inf, math.inf)
    for (x0, y0), (x1, y1) in zip(hull, (*hull[1:], hull[0]), strict=True):
        length = math.hypot(x1 - x0, y1 - y0)
        dx, dy = (x1 - x0) / length, (y1 - y0) / length
        along, across = [x * dx + y * dy for x, y in hull], [y * dx - x * dy for x, y in hull]
        sides = sorted((max(along) - min(along), max(across) - min(across)))
        if sides[0] * sides[1] < best[0] * best[1]:
            best = (sides[0], sides[1])
    return best


def _largest_triangle(hull: list[Point]) -> float:
    """The area of the largest triangle whose corners are corners of the hull."""
    count, best = len(hull), 0.0
    for first in range(count):
        third = first + 2
        for second in range(first + 1, count):
            while third + 1 < count and _doubled(hull, first, second, third + 1) >= _doubled(
                hull, first, second, third
            ):
                third += 1
            if third < count:
                best = max(best, _doubled(hull, first, second, third) / 2)
    return best


def _doubled(hull: list[Point], first: int, second: int, third: int) -> float:
    return abs(_cross(hull[first], hull[second], hull[third]))
