"""A small canvas: draws plane figures in a fixed palette without a library, and writes PNG."""

import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rollouthub_servers.visual.glyphs import GLYPHS, HEIGHT, WIDTH

Rgb = tuple[int, int, int]
PALETTE: Mapping[str, Rgb] = {
    "white": (255, 255, 255),
    "black": (20, 20, 20),
    "grey": (200, 200, 200),
    "red": (214, 39, 40),
    "blue": (31, 119, 220),
    "green": (44, 160, 44),
    "orange": (255, 140, 0),
    "purple": (128, 60, 190),
    "yellow": (250, 220, 30),
}
"""Colour name → RGB."""
COLOURS = ("red", "blue", "green", "orange", "purple", "yellow")
"""Colours that questions ask about."""

Point = tuple[float, float]


class Canvas:
    """A picture of `width` by `height` pixels; x points right, y points down, and parts outside are not drawn.

    `palette` has at most 256 named colours; the first is the background.
    """

    def __init__(self, width: int, height: int, palette: Mapping[str, Rgb] = PALETTE) -> None:
        self.width, self.height = width, height
        self.palette = palette
        self._index = {name: place for place, name in enumerate(palette)}
        self.rows = [bytearray(width) for _ in range(height)]
        """Rows of pixels; each pixel is the index of its colour in the palette."""

    def rectangle(self, left: float, top: float, right: float, bottom: float, colour: str) -> None:
        """Fill a rectangle, without its right and bottom edges."""
        for y in range(max(0, round(top)), min(self.height, round(bottom))):
            self._span(y, left, right, self._index[colour])

    def disc(self, x: float, y: float, radius: float, colour: str) -> None:
        """Fill a circle."""
        for row in range(max(0, math.ceil(y - radius)), min(self.height, math.floor(y + radius) + 1)):
            half = math.sqrt(max(0.0, radius**2 - (row - y) ** 2))
            self._span(row, x - half, x + half, self._index[colour])

    def polygon(self, corners: Sequence[Point], colour: str) -> None:
        """Fill a polygon; where it crosses itself, by the even-odd rule."""
        self.polygons([corners], colour)

    def polygons(self, rings: Iterable[Sequence[Point]], colour: str) -> None:
        """Fill the area that polygons enclose together, by the even-odd rule: a polygon inside another is a hole."""
        crossed: defaultdict[int, list[float]] = defaultdict(list)
        for corners in rings:
            for (x0, y0), (x1, y1) in zip(corners, (*corners[1:], corners[0]), strict=True):
                # The rows whose middle lies between both ends.
                first, last = math.ceil(min(y0, y1) - 0.5), math.ceil(max(y0, y1) - 0.5)
                for row in range(max(0, first), min(self.height, last)):
                    crossed[row].append(x0 + (row + 0.5 - y0) * (x1 - x0) / (y1 - y0))
        for row, places in crossed.items():
            places.sort()
            for left, right in zip(places[::2], places[1::2], strict=True):
                self._span(row, left, right, self._index[colour])

    def line(self, start: Point, end: Point, colour: str, width: float = 1.0) -> None:
        """Draw a straight line of this width."""
        (x0, y0), (x1, y1) = start, end
        length = math.hypot(x1 - x0, y1 - y0)
        if length == 0:
            return
        across, along = (y0 - y1) / length * width / 2, (x1 - x0) / length * width / 2
        corners = [(x0 + across, y0 + along), (x1 + across, y1 + along), (x1 - across, y1 - along)]
        self.polygon([*corners, (x0 - across, y0 - along)], colour)

    def text(self, x: float, y: float, words: str, colour: str = "black", scale: int = 3) -> None:
        """Draw digits and capital letters, centred at a point."""
        left = x - (len(words) * (WIDTH + 1) - 1) * scale / 2
        top = y - HEIGHT * scale / 2
        for place, letter in enumerate(words):
            begin = left + place * (WIDTH + 1) * scale
            for row, line in enumerate(GLYPHS[letter]):
                for column, dot in enumerate(line):
                    if dot == "#":
                        right, bottom = begin + column * scale, top + row * scale
                        self.rectangle(right, bottom, right + scale, bottom + scale, colour)

    def colour_at(self, x: int, y: int) -> str:
        """Name of a pixel's colour."""
        return tuple(self.palette)[self.rows[y][x]]

    def png(self) -> bytes:
        """The picture as a PNG file with a palette."""
        header = self.width.to_bytes(4) + self.height.to_bytes(4) + bytes([8, 3, 0, 0, 0])
        pixels = zlib.compress(b"".join(b"\0" + row for row in self.rows), 6)
        palette = bytes(value for colour in self.palette.values() for value in colour)
        chunks = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", pixels), (b"IEND", b""))
        return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in chunks)

    def _span(self, y: int, left: float, right: float, index: int) -> None:
        start, end = max(0, round(left)), min(self.width, round(right))
        if end > start:
            self.rows[y][start:end] = bytes([index]) * (end - start)


def regular(x: float, y: float, radius: float, sides: int, turn: float = 0.0) -> list[Point]:
    """The corners of a regular polygon around a point; `turn` in radians from a corner at the top."""
    angles = (turn + 2 * math.pi * place / sides for place in range(sides))
    return [(x + radius * math.sin(angle), y - radius * math.cos(angle)) for angle in angles]


def _chunk(name: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4) + name + content + zlib.crc32(name + content).to_bytes(4)
