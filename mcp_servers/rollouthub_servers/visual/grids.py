"""Grids of coloured cells: cells are found, counted and grouped."""

from random import Random

from rollouthub_servers.visual.canvas import COLOURS, Canvas
from rollouthub_servers.visual.picture_question import PictureQuestion

_CELL = 32

Cells = list[list[str]]


def grid(random: Random, level: int) -> PictureQuestion:
    """A question on a grid; higher levels have larger grids, and the last two also ask for connected groups."""
    size = 2 + level
    colours = random.sample(COLOURS, 3 if level < 3 else 4)
    cells = [[random.choice(colours) for _ in range(size)] for _ in range(size)]
    canvas = _drawn(cells)
    colour, row, column = random.choice(colours), random.randrange(size), random.randrange(size)
    kind = random.choice(("cell", "count", "row") if level < 4 else ("group", "row", "count"))
    if kind == "cell":
        asked = f"Which colour has the cell in row {row + 1} (from the top) and column {column + 1} (from the left)?"
        return PictureQuestion(asked, canvas, cells[row][column], "word", COLOURS)
    if kind == "row":
        answer = cells[row].count(colour)
        asked = f"How many cells of row {row + 1} (from the top) are {colour}?"
    elif kind == "group":
        answer = largest_group(cells, colour)
        asked = f"Cells that share a side are connected. How many cells has the largest group of {colour} ones?"
    else:
        answer, asked = sum(line.count(colour) for line in cells), f"How many cells are {colour}?"
    return PictureQuestion(asked, canvas, str(answer), "number")


def largest_group(cells: Cells, colour: str) -> int:
    """The size of the largest connected group of cells of one colour."""
    left = {(y, x) for y, line in enumerate(cells) for x, cell in enumerate(line) if cell == colour}
    largest = 0
    while left:
        group = [left.pop()]
        for y, x in group:
            near = {(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)} & left
            left -= near
            group += near
        largest = max(largest, len(group))
    return largest


def _drawn(cells: Cells) -> Canvas:
    side = _CELL * len(cells) + 3
    canvas = Canvas(side, side)
    canvas.rectangle(0, 0, side, side, "black")
    for y, line in enumerate(cells):
        for x, colour in enumerate(line):
            left, top = 3 + x * _CELL, 3 + y * _CELL
            canvas.rectangle(left, top, left + _CELL - 3, top + _CELL - 3, colour)
    return canvas
