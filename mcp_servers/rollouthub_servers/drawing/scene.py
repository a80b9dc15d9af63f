"""Scenes: figures and claims about them, the description in words, and an SVG as a reference."""

import math
from collections.abc import Sequence
from typing import Literal

from rollouthub.values import Frozen

SIDE = 200
"""Width and height of the canvas, in pixels."""
FigureKind = Literal["circle", "square", "triangle", "rectangle", "ring"]
KINDS: tuple[FigureKind, ...] = ("circle", "square", "triangle", "rectangle", "ring")
"""Kinds of figures; later ones appear only on higher levels."""
PLACES = (
    "in the top left",
    "at the top, in the middle",
    "in the top right",
    "on the left, halfway down",
    "in the centre",
    "on the right, halfway down",
    "in the bottom left",
    "at the bottom, in the middle",
    "in the bottom right",
)
"""The nine places of a 3 × 3 grid, row by row."""
ClaimKind = Literal["at", "left of", "right of", "above", "below", "inside", "larger", "count"]


class Figure(Frozen):
    """A figure, with its place and size in the reference drawing."""

    kind: FigureKind
    colour: str
    x: float
    y: float
    size: float
    """Width in pixels."""

    @property
    def name(self) -> str:
        """The figure's name in the description."""
        return f"{self.colour} {self.kind}"

    def svg(self) -> str:
        """The figure as an SVG element."""
        x, y, half, paint = self.x, self.y, self.size / 2, f'fill="{self.colour}"'
        if self.kind == "circle":
            return f'<circle cx="{x:g}" cy="{y:g}" r="{half:g}" {paint}/>'
        if self.kind == "ring":
            wide = self.size / 5
            stroke = f'fill="none" stroke="{self.colour}" stroke-width="{wide:g}"'
            return f'<circle cx="{x:g}" cy="{y:g}" r="{half - wide / 2:g}" {stroke}/>'
        if self.kind == "triangle":
            corners = f"{x:g},{y - half:g} {x + half:g},{y + half:g} {x - half:g},{y + half:g}"
            return f'<polygon points="{corners}" {paint}/>'
        high = self.size if self.kind == "square" else self.size / 2
        place = f'x="{x - half:g}" y="{y - high / 2:g}" width="{self.size:g}" height="{high:g}"'
        return f"<rect {place} {paint}/>"


class Claim(Frozen):
    """A claim of the description about a figure."""

    kind: ClaimKind
    subject: int
    """Index of the figure; for `count`, of one of those counted."""
    object: int = 0
    """Index of the other figure; for `at` the place, for `count` the number."""


class Scene(Frozen):
    """A description with its figures and claims."""

    words: str
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]


def svg_of(figures: Sequence[Figure]) -> str:
    """An SVG of the figures, with later ones on top."""
    shapes = "".join(figure.svg() for figure in figures)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE} {SIDE}">{shapes}</svg>'


def place_of(x: float, y: float) -> int:
    """Index of the place that contains a point."""
    column, row = (min(2, max(0, math.floor(each * 3 / SIDE))) for each in (x, y))
    return row * 3 + column


def with_article(name: str) -> str:
    """The name preceded by "a" or "an"."""
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def listed(names: Sequence[str]) -> str:
    """Names joined by commas and "and"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
