"""Reads the drawing of a submission, SVG or PNG, as a grid of named colours."""

from functools import lru_cache

from rollouthub.authoring.submitted_picture import place_of_picture, submitted_picture
from rollouthub.score import Submission
from rollouthub_servers.drawing.bad_drawing import BadDrawing
from rollouthub_servers.drawing.png_reader import read_png
from rollouthub_servers.drawing.scene import SIDE
from rollouthub_servers.drawing.svg import MOST_CHARACTERS, rasterise, read_svg
from rollouthub_servers.drawing.svg_paint import colour_name
from rollouthub_servers.visual.canvas import Canvas, Rgb

NAMES = ("white", "black", "grey", "red", "orange", "yellow", "green", "blue", "purple", "other")
GROUND = 0
"""Index of white, the background colour."""
_PLACE = {name: place for place, name in enumerate(NAMES)}
_BEGIN, _END = "<svg", "</svg>"
Grid = list[bytes]
"""Rows of pixels from the top; each pixel is the index of its colour in `NAMES`."""


def grid_of(submission: Submission) -> Grid:
    """The last SVG document or PNG data URL in the final message, else the last PNG submitted.

    Raises:
        BadDrawing: there is none, or it cannot be read.
    """
    text = submission.final
    if text.rfind(_END) > place_of_picture(text):
        return _of_canvas(drawn(text))
    try:
        content = submitted_picture(submission)
    except ValueError as error:
        raise BadDrawing(str(error)) from None
    if content is None:
        raise BadDrawing("there is no drawing: neither an SVG document nor a PNG picture")
    return _of_png(content)


def drawn(text: str) -> Canvas:
    """Render the last SVG document in a text.

    Raises:
        BadDrawing: there is none, or it cannot be drawn.
    """
    end = text.rfind(_END)
    start = text.rfind(_BEGIN, max(0, end - MOST_CHARACTERS), end) if end >= 0 else -1
    if start < 0:
        raise BadDrawing(f"there is no SVG document of up to {MOST_CHARACTERS:,} characters")
    return rasterise(read_svg(text[start : end + len(_END)]))


def _of_canvas(canvas: Canvas) -> Grid:
    names = bytes(map(_place_of, canvas.palette.values()))
    return [bytes(row).translate(names + bytes(256 - len(names))) for row in canvas.rows]


@lru_cache(4096)
def _place_of(colour: Rgb) -> int:
    return _PLACE[colour_name(colour)]


def _of_png(content: bytes) -> Grid:
    pixels = read_png(content)
    scale = max(pixels.width, pixels.height) / SIDE
    left, top = (SIDE * scale - pixels.width) / 2, (SIDE * scale - pixels.height) / 2

    def at(column: int, row: int) -> int:
        x, y = int((column + 0.5) * scale - left), int((row + 0.5) * scale - top)
        if 0 <= x < pixels.width and 0 <= y < pixels.height:
            return _place_of(pixels.colour_at(x, y))
        return GROUND

    return [bytes([at(column, row) for column in range(SIDE)]) for row in range(SIDE)]
