"""What is painted for a container that draws nothing of its own but its background."""

from collections.abc import Sequence
from functools import lru_cache

from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


def ground_lines(widget: Widget, crop: Region) -> list[Strip]:
    """The lines of a container without border: one, as often as it is asked for lines.

    Textual paints a widget through all that lies behind it, line by line, though nothing of that is seen.
    """
    line = _line(crop.width, widget.background_colors[1], tuple(widget.get_line_filters()))
    return [line] * crop.height


@lru_cache(64)
def _line(width: int, background: Color, filters: Sequence[LineFilter]) -> Strip:
    line = Strip.blank(width, Style(bgcolor=background.rich_color))
    for each in filters:
        line = line.apply_filter(each, background)
    return line
