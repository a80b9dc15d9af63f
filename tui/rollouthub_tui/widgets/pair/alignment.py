"""Finds the common parts of two sequences in bounded time, however long and similar they are."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher

_SMALL = 4_096
"""Largest product of the two lengths that is compared with `difflib`, whose time grows quadratically."""

Stretch = tuple[bool, int, int, int, int]
"""Whether it is common to both, and its range in the first and in the second: from, to, from, to."""


def align(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[Stretch]:
    """The stretches of two sequences in order, common and different ones alternately.

    Elements that occur once in each sequence serve as anchors (Cohen's patience diff). What lies between them is
    compared by `difflib` if it is small, else taken as different.
    """
    same = sorted(_same(first, second, 0, len(first), 0, len(second)))
    found: list[Stretch] = []
    at, other_at = 0, 0
    for start, other_start, length in _joined(same):
        if start > at or other_start > other_at:
            found.append((False, at, start, other_at, other_start))
        found.append((True, start, start + length, other_start, other_start + length))
        at, other_at = start + length, other_start + length
    if at < len(first) or other_at < len(second):
        found.append((False, at, len(first), other_at, len(second)))
    return found


def _joined(same: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    start = other = length = 0
    for place, other_place, more in same:
        if length and (place, other_place) == (start + length, other + length):
            length += more
        else:
            if length:
                yield start, other, length
            start, other, length = place, other_place, more
    if length:
        yield start, other, length


def _same(
    first: Sequence[Hashable], second: Sequence[Hashable], low: int, high: int, other_low: int, other_high: int
) -> Iterator[tuple[int, int, int]]:
    """The common stretches in any order; uses its own stack instead of recursion, which could get too deep."""
    waiting = [(low, high, other_low, other_high)]
    while waiting:
        low, high, other_low, other_high = waiting.pop()
        head = _alike(first, second, low, high, other_low, other_high, 1)
        if head:
            yield low, other_low, head
            low, other_low = low + head, other_low + head
        tail = _alike(first, second, low, high, other_low, other_high, -1)
        if tail:
            high, other_high = high - tail, other_high - tail
            yield high, other_high, tail
        if low == high or other_low == other_high:
            continue
        anchors = _anchors(first, second, low, high, other_low, other_high)
        if anchors:
            at, other_at = low, other_low
            for place, other_place in anchors:
                yield place, other_place, 1
                waiting.append((at, place, other_at, other_place))
                at, other_at = place + 1, other_place + 1
            waiting.append((at, high, other_at, other_high))
        elif (high - low) * (other_high - other_low) <= _SMALL:
            matcher = SequenceMatcher(None, first[low:high], second[other_low:other_high], autojunk=False)
            for block in matcher.get_matching_blocks():
                if block.size:
                    yield low + block.a, other_low + block.b, block.size


def _alike(
    first: Sequence[Hashable],
    second: Sequence[Hashable],
    low: int,
    high: int,
    other_low: int,
    other_high: int,
    step: int,
) -> int:
    """The number of equal elements from the beginning or, backwards, from the end."""
    at, other = (low, other_low) if step > 0 else (high - 1, other_high - 1)
    most = min(high - low, other_high - other_low)
    return next((k for k in range(most) if first[at + step * k] != second[other + step * k]), most)


def _anchors(
    first: Sequence[Hashable], second: Sequence[Hashable], low: int, high: int, other_low: int, other_high: int
) -> list[tuple[int, int]]:
    """Positions of elements that occur once in each stretch, as the longest chain increasing in both."""
    counts, others = Counter(first[low:high]), Counter(second[other_low:other_high])
    where = {
        element: place for place, element in enumerate(second[other_low:other_high], other_low) if others[element] == 1
    }
    pairs = [
        (place, where[element])
        for place, element in enumerate(first[low:high], low)
        if counts[element] == 1 and element in where
    ]
    ends: list[int] = []
    places: list[int] = []
    before: list[int] = []
    for index, (_, other) in enumerate(pairs):
        at = bisect_left(ends, other)
        before.append(places[at - 1] if at else -1)
        if at == len(ends):
            ends.append(other)
            places.append(index)
        else:
            ends[at], places[at] = other, index
    chain: list[tuple[int, int]] = []
    index = places[-1] if places else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]
