"""Coordinate transformations of SVG: translation, scaling, rotation and skewing."""

import math
import re

from rollouthub_servers.drawing.bad_drawing import BadDrawing
from rollouthub_servers.drawing.svg_path import numbers
from rollouthub_servers.visual.canvas import Point

Matrix = tuple[float, float, float, float, float, float]
"""(a, b, c, d, e, f): x becomes ax + cy + e, and y becomes bx + dy + f."""
_STEP = re.compile(r"\s*,?\s*([A-Za-z]{1,16})\s*\(([^()]*)\)", re.ASCII)
_MOST = 16
"""Most operations in one `transform` attribute."""


def read_transform(text: str) -> Matrix:
    """Parse a `transform` attribute.

    Raises:
        BadDrawing: an operation is unknown.
    """
    matrix: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
    place, rest = 0, text.rstrip()
    for _ in range(_MOST):
        if place == len(rest):
            return matrix
        step = _STEP.match(rest, place)
        if step is None:
            break
        matrix = multiplied(matrix, _matrix(step[1], numbers(step[2])))
        place = step.end()
    raise BadDrawing(f"the transform {text[:40]!r} is not known; use translate, scale, rotate or matrix")


def _matrix(name: str, given: list[float]) -> Matrix:
    match name, given:
        case "translate", [x, *more] if len(more) < 2:
            return 1.0, 0.0, 0.0, 1.0, x, more[0] if more else 0.0
        case "scale", [x, *more] if len(more) < 2:
            return x, 0.0, 0.0, more[0] if more else x, 0.0, 0.0
        case "rotate", [degrees]:
            turn = math.radians(degrees)
            return math.cos(turn), math.sin(turn), -math.sin(turn), math.cos(turn), 0.0, 0.0
        case "rotate", [degrees, x, y]:
            there = multiplied((1.0, 0.0, 0.0, 1.0, x, y), _matrix("rotate", [degrees]))
            return multiplied(there, (1.0, 0.0, 0.0, 1.0, -x, -y))
        case "matrix", [a, b, c, d, e, f]:
            return a, b, c, d, e, f
        case _:
            raise BadDrawing(f"{name[:20]} with {len(given)} numbers is no transform; use translate, scale or rotate")


def multiplied(outer: Matrix, inner: Matrix) -> Matrix:
    """The product of two transformations; the inner one is applied first."""
    a, b, c, d, e, f = outer
    g, h, i, j, k, m = inner
    return a * g + c * h, b * g + d * h, a * i + c * j, b * i + d * j, a * k + c * m + e, b * k + d * m + f


def moved(matrix: Matrix, point: Point) -> Point:
    """A point after the transformation."""
    (a, b, c, d, e, f), (x, y) = matrix, point
    return a * x + c * y + e, b * x + d * y + f
