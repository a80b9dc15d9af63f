"""Reads a small, safe part of SVG: shapes with plain colours, without entities, links or scripts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from xml.parsers import expat

from rollouthub_servers.drawing.bad_drawing import BadDrawing
from rollouthub_servers.drawing.scene import SIDE
from rollouthub_servers.drawing.svg_paint import read_colour
from rollouthub_servers.drawing.svg_path import LARGEST, number, numbers, read_path
from rollouthub_servers.drawing.svg_transform import Matrix, moved, multiplied, read_transform
from rollouthub_servers.visual.canvas import Canvas, Point, Rgb

MOST_CHARACTERS = 32 * 1024
MOST_ELEMENTS, MOST_POINTS, MOST_DEPTH, MOST_COLOURS = 200, 4000, 16, 64
MOST_ROWS = 300_000
"""Most pixel rows that all edges and strokes cross in total; a ring of usual size crosses about 2,000."""
ROUND = 48
"""Number of corners with which a circle or ellipse is drawn."""
SHAPES = ("rect", "circle", "ellipse", "line", "polyline", "polygon", "path")
_WORDS = frozenset({"title", "desc", "metadata"})
"""Elements that are skipped with their content, as they draw nothing."""
_PAINT = frozenset({"fill", "stroke", "stroke-width", "transform", "style"})
_OWN = {
    "svg": {"viewBox", "width", "height"},
    "g": set[str](),
    "rect": {"x", "y", "width", "height"},
    "circle": {"cx", "cy", "r"},
    "ellipse": {"cx", "cy", "rx", "ry"},
    "line": {"x1", "y1", "x2", "y2"},
    "polyline": {"points"},
    "polygon": {"points"},
    "path": {"d"},
}
"""Element → its own attributes, besides those of paint."""
_CHANGES_NOTHING = frozenset({
    "id", "class", "version", "role", "xmlns", "baseProfile", "preserveAspectRatio", "shape-rendering", "fill-rule",
    "stroke-linecap", "stroke-linejoin", "stroke-miterlimit", "font-family", "font-size", "text-anchor",
})  # fmt: skip
_ONE = frozenset({"opacity", "fill-opacity", "stroke-opacity"})
"""Attributes that are accepted only with the value 1."""


@dataclass(frozen=True)
class Paint:
    """How shapes are drawn; a group's settings apply to everything in it."""

    fill: Rgb | None = (0, 0, 0)
    stroke: Rgb | None = None
    width: float = 1.0
    matrix: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(frozen=True)
class Shape:
    """A shape, in pixel coordinates."""

    paths: list[tuple[list[Point], bool]]
    """Its paths: the points, and whether the path is closed."""
    paint: Paint


def read_svg(text: str) -> list[Shape]:
    """The shapes of a document, in drawing order.

    Raises:
        BadDrawing: it is not an SVG document, is too long, or has unsupported content; the message says which.
    """
    if len(text) > MOST_CHARACTERS:
        raise BadDrawing(f"it has {len(text):,} characters; {MOST_CHARACTERS:,} are read")
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.StartDoctypeDeclHandler = _refuse
    parser.EntityDeclHandler = _refuse
    parser.ProcessingInstructionHandler = _refuse
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        raise BadDrawing(f"it is no XML: {error}") from None
    return reader.shapes


def _refuse(*_: object) -> None:
    raise BadDrawing("document types, entities and instructions are not read")


class _Reader:
    """Receives events of the XML parser, and collects shapes."""

    def __init__(self) -> None:
        self.shapes: list[Shape] = []
        self._stack: list[Paint] = []
        self._unread = 0
        """Depth below a skipped element; 0 outside."""
        self._elements, self._points = 0, MOST_POINTS

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = tag.removeprefix("svg:")
        self._elements += 1
        if self._elements > MOST_ELEMENTS:
            raise BadDrawing(f"it has more than {MOST_ELEMENTS} elements")
        if self._unread or name in _WORDS:
            self._unread += 1
            return
        if (name == "svg") is bool(self._stack):
            raise BadDrawing("it is one svg element, and has no other in it")
        if name not in _OWN:
            raise BadDrawing(f"<{name[:40]}> is not drawn here; use g, {', '.join(SHAPES)}")
        if len(self._stack) >= MOST_DEPTH:
            raise BadDrawing(f"groups are nested more than {MOST_DEPTH} deep")
        given = _declared(attributes)
        _check(name, given)
        paint = _painted(self._stack[-1] if self._stack else Paint(), given)
        if name == "svg":
            paint = replace(paint, matrix=multiplied(_view(given), paint.matrix))
        elif name != "g":
            self._add(name, given, paint)
        self._stack.append(paint)

    def end(self, tag: str) -> None:
        if self._unread:
            self._unread -= 1
        else:
            self._stack.pop()

    def _add(self, name: str, given: Mapping[str, str], paint: Paint) -> None:
        paths = _paths(name, given, self._points)
        self._points -= sum(len(points) for points, _ in paths)
        if self._points < 0:
            raise BadDrawing(f"it has more than {MOST_POINTS:,} points")
        if name == "line":
            paint = replace(paint, fill=None)
        placed = [([moved(paint.matrix, point) for point in points], is_closed) for points, is_closed in paths]
        if any(not abs(value) <= LARGEST for points, _ in placed for point in points for value in point):
            raise BadDrawing(f"a point of <{name}> lies further away than {LARGEST:,.0f}")
        self.shapes.append(Shape([path for path in placed if path[0]], paint))


def _declared(attributes: Mapping[str, str]) -> dict[str, str]:
    """The attributes, overridden by the declarations in `style`."""
    given = dict(attributes)
    for declaration in given.pop("style", "").split(";"):
        name, colon, value = declaration.partition(":")
        if colon:
            given[name.strip()] = value
    return given


def _check(name: str, given: Mapping[str, str]) -> None:
    for attribute, value in given.items():
        if attribute in _ONE and value.strip() in ("1", "1.0", "100%"):
            continue
        is_idle = attribute in _CHANGES_NOTHING or attribute.startswith(("xmlns:", "aria-", "data-"))
        if not (is_idle or attribute in _PAINT or attribute in _OWN[name]):
            raise BadDrawing(f"{attribute[:40]!r} of <{name}> is not heeded here; leave it out")


def _painted(paint: Paint, given: Mapping[str, str]) -> Paint:
    if "fill" in given:
        paint = replace(paint, fill=read_colour(given["fill"]))
    if "stroke" in given:
        paint = replace(paint, stroke=read_colour(given["stroke"]))
    if "stroke-width" in given:
        paint = replace(paint, width=number(given["stroke-width"]))
    if "transform" in given:
        paint = replace(paint, matrix=multiplied(paint.matrix, read_transform(given["transform"])))
    return paint


def _view(given: Mapping[str, str]) -> Matrix:
    """The transformation from the drawing's units to the canvas: scaled to fit, and centred."""
    sides = [given.get(name, "100%") for name in ("width", "height")]
    whole = [SIDE if side.strip().endswith("%") else number(side) for side in sides]
    box = numbers(given["viewBox"]) if "viewBox" in given else [0.0, 0.0, *whole]
    if len(box) != 4 or not (box[2] > 0 and box[3] > 0):
        raise BadDrawing("its viewBox has four numbers, the last two of them above 0, like 0 0 200 200")
    left, top, wide, high = box
    scale = SIDE / max(wide, high)
    return scale, 0.0, 0.0, scale, (SIDE - wide * scale) / 2 - left * scale, (SIDE - high * scale) / 2 - top * scale


def _paths(name: str, given: Mapping[str, str], most_points: int) -> list[tuple[list[Point], bool]]:
    if name == "path":
        return read_path(given.get("d", ""), most_points)
    if name in ("polygon", "polyline"):
        values = numbers(given.get("points", ""))
        if len(values) % 2:
            raise BadDrawing(f"the points of <{name}> are {len(values)} numbers; each point has two")
        return [(list(zip(values[::2], values[1::2], strict=True)), name == "polygon")]
    at = {key: number(given.get(key, "0")) for key in _OWN[name]}
    if name == "line":
        return [([(at["x1"], at["y1"]), (at["x2"], at["y2"])], False)]
    if name == "rect":
        left, top, right, bottom = at["x"], at["y"], at["x"] + at["width"], at["y"] + at["height"]
        return [([(left, top), (right, top), (right, bottom), (left, bottom)], True)]
    rx, ry = (at["r"], at["r"]) if name == "circle" else (at["rx"], at["ry"])
    angles = [2 * math.pi * step / ROUND for step in range(ROUND)]
    return [([(at["cx"] + rx * math.cos(angle), at["cy"] + ry * math.sin(angle)) for angle in angles], True)]


def rasterise(shapes: list[Shape]) -> Canvas:
    """Draw the shapes on a white canvas, without antialiasing.

    Raises:
        BadDrawing: they have too many colours, or would take too long to draw.
    """
    paints = [colour for shape in shapes for colour in (shape.paint.fill, shape.paint.stroke) if colour is not None]
    palette = {_hex(colour): colour for colour in ((255, 255, 255), *paints)}
    if len(palette) > MOST_COLOURS:
        raise BadDrawing(f"it has more than {MOST_COLOURS} colours")
    if sum(map(_rows, shapes)) > MOST_ROWS:
        raise BadDrawing("its lines take too long to draw; use fewer, shorter or thinner ones")
    canvas = Canvas(SIDE, SIDE, palette)
    for shape in shapes:
        _draw(canvas, shape)
    return canvas


def _rows(shape: Shape) -> float:
    """An estimate of the pixel rows that drawing takes: those that each edge crosses, four times that for strokes."""
    edges = [
        abs(end[1] - start[1])
        for points, _ in shape.paths
        for start, end in zip(points, [*points[1:], points[0]], strict=True)
    ]
    width = _width(shape.paint)
    return sum(min(SIDE, edge) + (4 * min(SIDE, edge + width) if width else 0) for edge in edges)


def _width(paint: Paint) -> float:
    """Width of the stroke in pixels; 0 if there is none."""
    a, b, c, d = paint.matrix[:4]
    width = min(paint.width * math.sqrt(abs(a * d - b * c)), 2.0 * SIDE)
    return max(0.0, width) if paint.stroke is not None else 0.0


def _draw(canvas: Canvas, shape: Shape) -> None:
    paint = shape.paint
    if paint.fill is not None:
        canvas.polygons([points for points, _ in shape.paths], _hex(paint.fill))
    width = _width(paint)
    if paint.stroke is None or width <= 0:
        return
    colour = _hex(paint.stroke)
    for points, is_closed in shape.paths:
        for start, end in zip(points, [*points[1:], points[0]] if is_closed else points[1:], strict=False):
            canvas.line(start, end, colour, width)
        if width > 2:  # corners are round
            for x, y in points if is_closed else points[1:-1]:
                canvas.disc(x, y, width / 2, colour)


def _hex(colour: Rgb) -> str:
    return f"#{bytes(colour).hex()}"
