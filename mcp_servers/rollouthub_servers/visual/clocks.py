"""Clocks with hands: the time they show, or the time some minutes later."""

import math
from random import Random

from rollouthub_servers.visual.canvas import COLOURS, Canvas
from rollouthub_servers.visual.picture_question import HARDEST, PictureQuestion

_MINUTES = {1: 60, 2: 30, 3: 5, 4: 1, 5: 1}
"""Level → the minutes shown are multiples of this number."""
_MIDDLE = 112


def clock(random: Random, level: int) -> PictureQuestion:
    """A question on a clock: full hours on the first level, single minutes on the fourth, no numerals on the last."""
    shown = random.randrange(0, 720, _MINUTES[level])
    canvas = _drawn(shown, random.choice(COLOURS), random.randint(80, 104), has_numerals=level < HARDEST)
    asked, minutes = "What time does the clock show?", shown
    if level == HARDEST:
        later = random.randrange(10, 180)
        asked, minutes = f"What time will it be {later} minutes after the time that the clock shows?", shown + later
    return PictureQuestion(f"{asked} Give it as H:MM, on a clock of 12 hours.", canvas, time_of(minutes), "time")


def time_of(minutes: int) -> str:
    """Format minutes after twelve as H:MM."""
    hours, rest = divmod(minutes % 720, 60)
    return f"{hours or 12}:{rest:02}"


def _drawn(minutes: int, colour: str, radius: int, *, has_numerals: bool) -> Canvas:
    canvas = Canvas(2 * _MIDDLE, 2 * _MIDDLE)
    canvas.disc(_MIDDLE, _MIDDLE, radius, "black")
    canvas.disc(_MIDDLE, _MIDDLE, radius - 3, "white")
    for tick in range(60):
        length, width = (10, 3) if tick % 5 == 0 else (5, 1)
        canvas.line(_at(tick / 60, radius - 4 - length), _at(tick / 60, radius - 4), "black", width)
    for hour in range(1, 13) if has_numerals else ():
        x, y = _at(hour / 12, radius - 28)
        canvas.text(x, y, str(hour), scale=2)
    canvas.line((_MIDDLE, _MIDDLE), _at(minutes / 720, radius / 2), "black", 8)
    canvas.line((_MIDDLE, _MIDDLE), _at(minutes % 60 / 60, radius - 18), colour, 4)
    canvas.disc(_MIDDLE, _MIDDLE, 6, "black")
    return canvas


def _at(turn: float, radius: float) -> tuple[float, float]:
    """The end point of a hand of this length after this share of a full turn."""
    angle = 2 * math.pi * turn
    return _MIDDLE + radius * math.sin(angle), _MIDDLE - radius * math.cos(angle)
