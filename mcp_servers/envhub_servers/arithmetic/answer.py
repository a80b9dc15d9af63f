"""Finding the whole number a model gave as its answer, in whatever dress."""

import re

TAIL = 2_000
"""Characters from the end that are read; an answer stands last."""

# A minus is a sign only where it cannot be a subtraction: not right after a digit or a closing bracket.
_NUMBER = re.compile(
    r"(?P<sign>(?<![\d)}\]])[-−–]\s?)?(?:\\?\$|€|£)?\s?(?P<inner>-)?"
    r"(?P<whole>\d{1,3}(?:(?:,|\{,\}|\\,|\\!,|,\\!)\d{3})+(?!\d)|\d+)(?:\.(?P<decimals>\d+))?",
    re.ASCII,
)
_BOX = re.compile(r"\\boxed\s*\{([^{}]*(?:\{,\}[^{}]*)*)\}")
_SEPARATORS = re.compile(r"\D")


def find_integer(text: str) -> str | None:
    """The last number of the last box, else of the text, in canonical digits; None where there is no number.

    A number with decimals other than zeros is no whole number and comes back as it stands.
    """
    tail = text[-TAIL:]
    boxes = _BOX.findall(tail) if "\\boxed" in tail else ()
    if boxes:
        tail = boxes[-1]
    numbers = list(_NUMBER.finditer(tail))
    if not numbers:
        return None
    last = numbers[-1]
    digits = _SEPARATORS.sub("", last["whole"]).lstrip("0") or "0"
    decimals = (last["decimals"] or "").rstrip("0")
    negative = (bool(last["sign"]) and not _is_subtraction(tail, last)) != bool(last["inner"])
    number = f"{digits}.{decimals}" if decimals else digits
    return f"-{number}" if negative and number != "0" else number


def _is_subtraction(text: str, number: re.Match[str]) -> bool:
    """Whether the minus stands apart between two operands, as in `100 - 58`."""
    before = text[: number.start("sign")].rstrip()
    return number["sign"][-1].isspace() and bool(before) and (before[-1].isdigit() or before[-1] in ")}]")
