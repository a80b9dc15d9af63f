"""Detects whether the agent told the user an amount of money."""

import re
from collections.abc import Iterable, Sequence

_AMOUNT = re.compile(
    r"(?P<sign>\$|\bUSD)?\s?(?<![\d.,])(?P<whole>\d{1,3}(?:,\d{3})+|\d{1,9})(?P<cents>\.\d{1,2})?(?![\d]|[.,]\d)"
    r"(?P<unit>\s?(?:dollars|USD|\$))?"
)
MOST_READ = 20_000
"""Most characters of a message, from its beginning, that are searched."""
MOST_AMOUNTS = 10
"""A message with more amounts than this counts as naming none."""


def told_share(amounts: Sequence[int], said: Iterable[str]) -> float:
    """The share of the amounts (in cents) that the messages name; 1 if there are none to name."""
    if not amounts:
        return 1.0
    named: set[int] = set()
    for text in said:
        found = amounts_in(text)
        if len(found) <= MOST_AMOUNTS:
            named |= found
    return sum(amount in named for amount in amounts) / len(amounts)


def amounts_in(text: str) -> set[int]:
    """The amounts of money in a text, in cents: numbers with a dollar sign, a unit or decimals."""
    return {
        int(found["whole"].replace(",", "")) * 100 + int((found["cents"] or ".")[1:].ljust(2, "0"))
        for found in _AMOUNT.finditer(text, 0, MOST_READ)
        if found["sign"] or found["unit"] or found["cents"]
    }
