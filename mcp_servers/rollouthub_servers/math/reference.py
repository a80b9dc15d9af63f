"""Reads the reference answer from the forms in which data sets store it."""

from math import isfinite
from typing import Any, cast

from rollouthub_servers.math.answer import MAX_ANSWER, last_boxed


def reference_answers(value: Any, *, is_solution: bool = False) -> tuple[str, ...]:
    r"""The answers in a cell, any of which is right: text, a number, or a list of these. Empty where there is none.

    Of a worked solution, what follows the last `####` counts (GSM8K), else the last `\boxed{}` (MATH); where
    `is_solution` it must have one of them.
    """
    cells = cast(list[Any], value) if isinstance(value, list | tuple) else [value]
    answers = [_answer(cell, is_solution) for cell in cells]
    # A list with a hole in it is a broken row, not a shorter list.
    return () if None in answers else tuple(dict.fromkeys(answer for answer in answers if answer is not None))


def _answer(value: Any, is_solution: bool) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        # 142.0 is a whole number that passed through a table.
        return None if not isfinite(value) else str(int(value)) if value.is_integer() else repr(value)
    if not isinstance(value, str):
        return None
    text = value.strip()
    if "####" in text:
        # GSM8K writes thousands with commas and means one number.
        text = text.rpartition("####")[2].replace(",", "")
    elif (boxed := last_boxed(text)) is not None:
        text = boxed
    elif is_solution:
        return None
    text = text.strip().strip("$").strip()
    return text if text and len(text) <= MAX_ANSWER else None
