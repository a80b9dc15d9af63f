"""Finds the whole number that a model gave as its answer, in any common notation."""

import re

TAIL = 2_000
"""Number of characters at the end of a text in which the answer is looked for."""

_NUMBER = re.compile(
    r"(?P<whole>\d{1,3}(?:(?:,|\{,\}|\\,|\\!|,\\!)\d{3})+(?!\d)|\d+)(?:\.(?P<decimals>\d+))?", re.ASCII
)
_BEFORE = re.compile(r"(?P<sign>[-−–]?)(?P<space>\s?)(?:\\?\$|€|£)?\s?(?P<inner>-?)$", re.ASCII)
_BOX = re.compile(r"\\boxed\s*\{([^{}]*(?:\{,\}[^{}]*)*)\}")
_SEPARATORS = re.compile(r"\D")


def find_integer(text: str) -> str | None:
    """The last number in the last `\\boxed{}`, else in the text, in canonical digits; None if there is none.

    A number with nonzero decimals is not a whole number, and is returned with its decimals.
    """
    text = text[-TAIL:]
    if "\\boxed" in text and (boxes := _BOX.findall(text)):
        text = boxes[-1]
    last = None
    for number in _NUMBER.finditer(text):
        last = number
    if last is None:
        return None
    digits = _SEPARATORS.sub("", last["whole"]).lstrip("0") or "0"
    decimals = (last["decimals"] or "").rstrip("0")
    found = f"{digits}.{decimals}" if decimals else digits
    return f"-{found}" if found != "0" and _is_negative(text[: last.start()]) else found


def _is_negative(before: str) -> bool:
    """Whether the text before a number ends in a minus sign that is not a subtraction (`7-3`, `100 - 58`)."""
    match = _BEFORE.search(before[-6:])
    assert match is not None
    operand = before[: len(before) - len(match[0])]
    if match["space"]:
        operand = operand.rstrip()
    is_subtraction = operand[-1:].isdigit() or operand[-1:] in (")", "]", "}")
    return (bool(match["sign"]) and not is_subtraction) != bool(match["inner"])
