"""A question about a picture, and its answer."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

from rollouthub_servers.visual.canvas import Canvas

Form = Literal["number", "word", "time"]
HARDEST = 5
"""The highest level; the lowest is 1."""


@dataclass(frozen=True)
class PictureQuestion:
    """A generated question about a picture."""

    question: str
    canvas: Canvas
    answer: str
    form: Form
    """The form of the answer: a whole number, one of `choices`, or a time of day as H:MM."""
    choices: tuple[str, ...] = ()


Generator = Callable[[Random, int], PictureQuestion]
"""Makes a question of a level from a random stream."""
