"""Converts SVG paths to polygons; curves and arcs become short lines."""

import math
import re
from collections.abc import Iterator
from itertools import pairwise

from rollouthub_servers.drawing.bad_drawing import BadDrawing
from rollouthub_servers.visual.canvas import Point

STEPS = 16
"""Number of lines that replace one curve."""
LARGEST = 1e6
"""Largest absolute value of a coordinate."""
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_TOKEN = re.compile(rf"([A-Za-z])|({_NUMBER.pattern})|[\s,]+|(.)", re.ASCII | re.DOTALL)
_TAKES = {"M": 2, "L": 2, "H": 1, "V": 1, "C": 6, "S": 4, "Q": 4, "T": 2, "A": 7, "Z": 0}
"""Path command → number of arguments."""


def number(text: str) -> float:
    """Parse one finite number of bounded size.

    Raises:
        BadDrawing: it is not a number, or too large.
    """
    match = _NUMBER.fullmatch(text.strip().removesuffix("px"))
    value = float(match[0]) if match else math.inf
    if abs(value) > LARGEST:
        raise BadDrawing(f"{text[:40]!r} is no number up to {LARGEST:,.0f}")
    return value


def numbers(text: str) -> list[float]:
    """Parse numbers separated by commas or blanks.

    Raises:
        BadDrawing: there is something else between them.
    """
    found: list[float] = []
    for letter, value, other in _TOKEN.findall(text):
        if letter or other:
            raise BadDrawing(f"{(letter or other)!r} stands among numbers")
        if value:
            found.append(number(value))
    return found


def read_path(text: str, most_points: int) -> list[tuple[list[Point], bool]]:
    """The sub-paths of a `d` attribute: the points, and whether the path is closed.

    Raises:
        BadDrawing: it is not a path, or has more than `most_points` points.
    """
    pen = _Pen(most_points)
    for command, given in _commands(text):
        pen.draw(command, given)
    return [(points, is_closed) for points, is_closed in pen.paths if len(points) > 1]


def _commands(text: str) -> Iterator[tuple[str, list[float]]]:
    """Each command with its arguments; a command letter that is left out is the previous one."""
    command: str | None = None
    given: list[float] = []
    for letter, value, other in _TOKEN.findall(text):
        if other:
            raise BadDrawing(f"{other!r} is nothing that a path has")
        if value:
            if command is None or command in "Zz":
                raise BadDrawing("numbers of a path stand before its first command")
            given.append(number(value))
            if len(given) == _TAKES[command.upper()]:
                yield command, given
                given = []
                command = {"M": "L", "m": "l"}.get(command, command)
        elif letter:
            if given:
                raise BadDrawing(f"the path's command {command} takes {_TAKES[(command or 'Z').upper()]} numbers")
            if letter.upper() not in _TAKES:
                raise BadDrawing(f"{letter!r} is no command of a path")
            command = letter
            if letter in "Zz":
                yield "Z", []
    if given:
        raise BadDrawing(f"the path's command {command} takes {_TAKES[(command or 'Z').upper()]} numbers")


class _Pen:
    """The current point of a path, and the sub-paths drawn so far."""

    def __init__(self, most_points: int) -> None:
        self.paths: list[tuple[list[Point], bool]] = []
        self._at: Point = (0.0, 0.0)
        self._start: Point = (0.0, 0.0)
        self._control: tuple[str, Point] | None = None
        self._left = most_points

    def draw(self, command: str, given: list[float]) -> None:
        name = command.upper()
        if name == "Z":
            if self.paths:
                self.paths[-1] = (self.paths[-1][0], True)
            self._at = self._start
            return
        if name != "M" and not self.paths:
            raise BadDrawing("a path begins with the command M")
        points = self._absolute(name, given, is_relative=command.islower())
        if name == "M":
            self._start = points[-1]
            self._begin(points[-1])
        elif self.paths[-1][1]:  # after Z it goes on where it began
            self._begin(self._start)
        if name in "LHV":
            self._go(points)
        elif name == "A":
            self._go(arc(self._at, points[-1], given[0], given[1], math.radians(given[2]), *map(bool, given[3:5])))
        elif name in "CSQT":
            self._curve(name, points)
        self._at = points[-1]
        if name not in "CSQT":
            self._control = None

    def _absolute(self, name: str, given: list[float], *, is_relative: bool) -> list[Point]:
        x, y = self._at
        dx, dy = (x, y) if is_relative else (0.0, 0.0)
        if name == "H":
            return [(given[0] + dx, y)]
        if name == "V":
            return [(x, given[0] + dy)]
        if name == "A":
            given = given[5:]
        return [(left + dx, top + dy) for left, top in zip(given[::2], given[1::2], strict=True)]

    def _begin(self, point: Point) -> None:
        self.paths.append(([], False))
        self._go([point])

    def _curve(self, name: str, points: list[Point]) -> None:
        if name in "ST":  # its first control point mirrors the last one of a curve before
            same = {"S": "CS", "T": "QT"}[name]
            (x, y), mirrored = self._at, self._at
            if self._control is not None and self._control[0] in same:
                mirrored = (2 * x - self._control[1][0], 2 * y - self._control[1][1])
            points = [mirrored, *points]
        self._control = (name, points[-2])
        self._go([_bezier([self._at, *points], step / STEPS) for step in range(1, STEPS + 1)])

    def _go(self, points: list[Point]) -> None:
        self._left -= len(points)
        if self._left < 0:
            raise BadDrawing("it has too many points")
        if any(abs(value) > LARGEST for point in points for value in point):
            raise BadDrawing(f"a path leads further than {LARGEST:,.0f}")
        self.paths[-1][0].extend(points)


def _bezier(points: list[Point], at: float) -> Point:
    """A point of a Bézier curve, by de Casteljau's algorithm."""
    while len(points) > 1:
        points = [(x0 + (x1 - x0) * at, y0 + (y1 - y0) * at) for (x0, y0), (x1, y1) in pairwise(points)]
    return points[0]


def arc(start: Point, end: Point, rx: float, ry: float, turn: float, is_large: bool, sweeps: bool) -> list[Point]:
    """Points of an elliptical arc after its start (https://www.w3.org/TR/SVG11/implnote.html#ArcImplementationNotes)."""
    rx, ry = abs(rx), abs(ry)
    if start == end:
        return []
    if rx < 1e-9 or ry < 1e-9:
        return [end]
    cosine, sine = math.cos(turn), math.sin(turn)
    half_x, half_y = (start[0] - end[0]) / 2, (start[1] - end[1]) / 2
    x, y = (cosine * half_x + sine * half_y) / rx, (cosine * half_y - sine * half_x) / ry
    reach = math.hypot(x, y)
    if reach > 1:  # too small an ellipse is made as large as it must be
        rx, ry, x, y, reach = rx * reach, ry * reach, x / reach, y / reach, 1.0
    factor = math.sqrt(max(0.0, 1 / reach**2 - 1)) * (-1 if is_large == sweeps else 1)
    middle_x, middle_y = factor * y, -factor * x
    first = math.atan2(y - middle_y, x - middle_x)
    swept = (math.atan2(-y - middle_y, -x - middle_x) - first) % (2 * math.pi)
    swept = swept if sweeps else swept - 2 * math.pi
    cx = cosine * middle_x * rx - sine * middle_y * ry + (start[0] + end[0]) / 2
    cy = sine * middle_x * rx + cosine * middle_y * ry + (start[1] + end[1]) / 2
    angles = (first + swept * step / (2 * STEPS) for step in range(1, 2 * STEPS))
    turned = ((rx * math.cos(angle), ry * math.sin(angle)) for angle in angles)
    return [*((cx + cosine * dx - sine * dy, cy + sine * dx + cosine * dy) for dx, dy in turned), end]
