"""Finds the answer in a response, in the form that the question asks for."""

import re
from collections.abc import Sequence

from rollouthub_servers.arithmetic.answer import TAIL, find_integer
from rollouthub_servers.visual.picture_question import Form

_TIME = re.compile(r"(?<![\d:])(\d{1,2})[:.](\d{2})(?![\d:])", re.ASCII)
_WORD = re.compile(r"[^\W\d_]+")


def find_answer(text: str, form: Form, choices: Sequence[str]) -> str | None:
    """The last number, time or choice in a text; None if there is none."""
    if form == "number":
        return find_integer(text)
    tail = text[-TAIL:]
    if form == "time":
        times = [_time(hours, minutes) for hours, minutes in _TIME.findall(tail)]
        return times[-1] if times else None
    # A single letter counts as a capital alone: "a" is an article.
    known = {choice if len(choice) == 1 else choice.casefold(): choice for choice in choices}
    said = [word if len(word) == 1 else word.casefold() for word in _WORD.findall(tail)]
    return next((known[word] for word in reversed(said) if word in known), None)


def _time(hours: str, minutes: str) -> str:
    return f"{int(hours) % 12 or 12}:{minutes}"
