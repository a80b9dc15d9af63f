"""Reads SVG colours, by name or in numbers, and names the colours of pictures."""

import colorsys
import re

from rollouthub_servers.drawing.bad_drawing import BadDrawing
from rollouthub_servers.visual.canvas import Rgb

_NAMES = {
    "aqua": "00ffff", "beige": "f5f5dc", "black": "000000", "blue": "0000ff", "brown": "a52a2a", "coral": "ff7f50",
    "crimson": "dc143c", "cyan": "00ffff", "darkblue": "00008b", "darkgreen": "006400", "darkorange": "ff8c00",
    "darkred": "8b0000", "deepskyblue": "00bfff", "dodgerblue": "1e90ff", "forestgreen": "228b22", "fuchsia": "ff00ff",
    "gold": "ffd700", "gray": "808080", "green": "008000", "grey": "808080", "indigo": "4b0082", "ivory": "fffff0",
    "lightblue": "add8e6", "lightgray": "d3d3d3", "lightgreen": "90ee90", "lightgrey": "d3d3d3", "lime": "00ff00",
    "limegreen": "32cd32", "magenta": "ff00ff", "maroon": "800000", "navy": "000080", "olive": "808000",
    "orange": "ffa500", "orangered": "ff4500", "pink": "ffc0cb", "purple": "800080", "rebeccapurple": "663399",
    "red": "ff0000", "royalblue": "4169e1", "seagreen": "2e8b57", "silver": "c0c0c0", "skyblue": "87ceeb",
    "steelblue": "4682b4", "teal": "008080", "tomato": "ff6347", "turquoise": "40e0d0", "violet": "ee82ee",
    "white": "ffffff", "yellow": "ffff00",
}  # fmt: skip
_HEX = re.compile(r"#([0-9a-f]{3}|[0-9a-f]{6})", re.ASCII)
_RGB = re.compile(r"rgb\(\s*(\d{1,3})\s*[,\s]\s*(\d{1,3})\s*[,\s]\s*(\d{1,3})\s*\)", re.ASCII)
_HUES = ((15, "red"), (45, "orange"), (70, "yellow"), (165, "green"), (255, "blue"), (315, "purple"), (361, "red"))
"""Upper limit in degrees of each named hue."""


def read_colour(text: str) -> Rgb | None:
    """Parse a colour; None for `none` and `transparent`.

    Raises:
        BadDrawing: the colour is unknown.
    """
    said = text.strip().lower()[:64]
    if said in ("none", "transparent"):
        return None
    if match := _RGB.fullmatch(said):
        red, green, blue = (min(255, int(value)) for value in match.groups())
        return red, green, blue
    match = _HEX.fullmatch(f"#{_NAMES[said]}" if said in _NAMES else said)
    if match is None:
        raise BadDrawing(f"{text[:40]!r} is no colour that is known; write it as #rrggbb")
    digits = match[1] if len(match[1]) == 6 else "".join(digit * 2 for digit in match[1])
    red, green, blue = bytes.fromhex(digits)
    return red, green, blue


def colour_name(colour: Rgb) -> str:
    """The name of a colour: its hue, or `white`, `black` or `grey`; `other` for pale, brown or dull colours."""
    hue, saturation, value = colorsys.rgb_to_hsv(*(part / 255 for part in colour))
    if value < 0.2:
        return "black"
    if saturation < 0.15:
        return "white" if value > 0.9 else "grey"
    name = next(name for end, name in _HUES if hue * 360 < end)
    least = 0.7 if name in ("orange", "yellow") else 0.3
    return name if saturation >= 0.4 and value >= least else "other"
