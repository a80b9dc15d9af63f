"""A selection of many items for a short table or a chart."""

from collections.abc import Sequence
from typing import TypeVar

_T = TypeVar("_T")


def evenly_spaced(items: Sequence[_T], most: int) -> list[_T]:
    """At most so many of the items, evenly spaced, the first and the last among them."""
    shown = min(most, len(items))
    return [items[round(place * (len(items) - 1) / max(1, shown - 1))] for place in range(shown)]
