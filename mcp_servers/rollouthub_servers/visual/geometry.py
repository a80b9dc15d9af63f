"""Plane figures: counted by kind and colour, or measured on a grid of unit squares."""

from random import Random

from rollouthub_servers.visual.canvas import COLOURS, Canvas, Point, regular
from rollouthub_servers.visual.picture_question import PictureQuestion

_SIDES = {"triangle": 3, "square": 4, "pentagon": 5, "hexagon": 6, "circle": 0}
_SLOT, _UNIT = 56, 22


def geometry(random: Random, level: int) -> PictureQuestion:
    """A question on plane figures; higher levels have more figures, and figures with more corners."""
    return _counted(random, level) if random.random() < 0.5 else _measured(random, level)


def _counted(random: Random, level: int) -> PictureQuestion:
    across = 3 if level < 3 else 4
    places = random.sample(range(across * across), min(across * across, 2 + 2 * level))
    kinds = list(_SIDES)[: 2 + level]
    colours = random.sample(COLOURS, 3)
    figures = [(random.choice(kinds), random.choice(colours)) for _ in places]
    canvas = Canvas(across * _SLOT, across * _SLOT)
    for place, (kind, colour) in zip(places, figures, strict=True):
        x, y = (place % across + 0.5) * _SLOT, (place // across + 0.5) * _SLOT
        _draw(canvas, kind, x, y, random.uniform(18, 25), random.uniform(0, 0.5), colour)
    kind, colour = random.choice(figures)
    if level < 3:
        asked, answer = f"How many {kind}s are there?", sum(figure[0] == kind for figure in figures)
    else:
        asked, answer = f"How many {colour} {kind}s are there?", figures.count((kind, colour))
    return PictureQuestion(asked, canvas, str(answer), "number")


def _draw(canvas: Canvas, kind: str, x: float, y: float, radius: float, turn: float, colour: str) -> None:
    if kind == "circle":
        canvas.disc(x, y, radius, colour)
    else:
        canvas.polygon(regular(x, y, radius, _SIDES[kind], turn), colour)


def _measured(random: Random, level: int) -> PictureQuestion:
    """A question on the area of a figure with corners on the grid; the area is a whole number of squares."""
    squares = 5 + level
    corners = _figure(random, level, squares)
    canvas = Canvas(squares * _UNIT + 1, squares * _UNIT + 1)
    canvas.polygon([(x * _UNIT, y * _UNIT) for x, y in corners], random.choice(COLOURS))
    for line in range(squares + 1):
        canvas.rectangle(line * _UNIT, 0, line * _UNIT + 1, canvas.height, "grey")
        canvas.rectangle(0, line * _UNIT, canvas.width, line * _UNIT + 1, "grey")
    asked = "What is the area of the coloured figure, in squares of the grid?"
    return PictureQuestion(asked, canvas, str(area(corners)), "number")


def _figure(random: Random, level: int, squares: int) -> list[Point]:
    left, top = random.randrange(2), random.randrange(2)
    wide, high = random.randint(2, squares - 2), random.randint(2, squares - 2)
    right, bottom = left + wide, top + high
    if level == 1:
        return [(left, top), (right, top), (right, bottom), (left, bottom)]
    if level == 2:  # a triangle, of which one leg is even, so that its area is whole
        bottom = top + high // 2 * 2
        return [(left, top), (right, bottom), (left, bottom)]
    cut_x, cut_y = random.randint(1, wide - 1), random.randint(1, high - 1)
    inner, shelf = right - cut_x, top + cut_y
    corner = (inner, shelf)
    figure: list[Point] = [(left, top), (inner, top), corner, (right, shelf), (right, bottom), (left, bottom)]
    if level >= 4 and cut_x * cut_y % 2 == 0:  # half of what was cut away is there again
        figure.remove(corner)
    return figure


def area(corners: list[Point]) -> int:
    """The area of a polygon, rounded to a whole number (the shoelace formula)."""
    pairs = zip(corners, (*corners[1:], corners[0]), strict=True)
    return round(abs(sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in pairs)) / 2)
