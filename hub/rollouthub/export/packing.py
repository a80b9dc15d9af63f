"""Packs rows of token ids into sequences of at most so many tokens, and takes them apart again."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, groupby
from typing import Any, cast

from rollouthub.errors import ConfigError
from rollouthub.export.formats.data_columns import Columns, Row
from rollouthub.export.left_out import LeftOut
from rollouthub.export.not_trainable import Refusal
from rollouthub.values import Int32s, Packed

LENGTHS, POSITIONS, ROWS, EXACT = "seq_lengths", "position_ids", "rows", "token_exact"
_WINDOW_TOKENS = 2**20
"""Least tokens of the rows among which a sequence's rows are chosen; they are in memory at once."""
_WINDOW_SEQUENCES = 64
_MOST_WINDOW = 2**24
"""Most tokens of such rows, where a sequence has fewer."""


def packed_columns(columns: Columns) -> Columns:
    """The columns of a packed row, whose rows have `columns`: those with a value for each token, one row after the
    other; the length of each row, and each token's position in its own; what else each row has.
    """
    return [*_of_tokens(columns), (POSITIONS, "ids"), (LENGTHS, "ids"), (ROWS, "jsons"), (EXACT, "truth")]


@dataclass(frozen=True)
class Packing:
    """Packs rows by best fit decreasing, a window of rows at a time."""

    columns: Columns
    """The columns of the rows, before they are packed."""
    most_tokens: int
    leaves_out: bool
    """Whether a rollout with a row of more tokens is left out, rather than an error."""

    def pack(self, rows: Iterable[Row], left_out: LeftOut) -> Iterator[Row]:
        """Yield packed rows, in the order of their first rows.

        Raises:
            ConfigError: a row has more tokens, and is not to be left out.
        """
        window: list[Row] = []
        size = 0
        for row in self._fitting(rows, left_out):
            window.append(row)
            size += self._length(row)
            if size >= max(_WINDOW_TOKENS, self.most_tokens, min(_WINDOW_SEQUENCES * self.most_tokens, _MOST_WINDOW)):
                yield from self._packed(window)
                window, size = [], 0
        yield from self._packed(window)

    def unpack(self, packed: Row) -> list[Row]:
        """The rows of a packed row, as they were."""
        rows: list[Row] = []
        ends = [*accumulate(packed[LENGTHS])]
        for start, end, rest in zip([0, *ends], ends, packed[ROWS], strict=False):
            values = {name: packed[name][start:end] for name, _ in _of_tokens(self.columns)}
            rows.append({name: values[name] if name in values else rest[name] for name, _ in self.columns})
        return rows

    def _length(self, row: Row) -> int:
        return len(row[_of_tokens(self.columns)[0][0]])

    def _fitting(self, rows: Iterable[Row], left_out: LeftOut) -> Iterator[Row]:
        """The rows of rollouts, all of whose rows fit."""
        for rollout_id, grouped in groupby(rows, key=lambda row: cast(str, row["rollout_id"])):
            made = list(grouped)
            longest = max(map(self._length, made))
            if longest <= self.most_tokens:
                yield from made
                continue
            said = f"a row of it has {longest:,} tokens, and a sequence at most {self.most_tokens:,}"
            if not self.leaves_out:
                raise ConfigError(
                    f"rollout {rollout_id} cannot be packed: {said}; give longer sequences, filter by max_tokens, or "
                    "leave such rollouts out (too_long = 'leave_out')"
                )
            left_out.add(Refusal.TOO_LONG.value, rollout_id, said)

    def _packed(self, window: Sequence[Row]) -> Iterator[Row]:
        lengths = [self._length(row) for row in window]
        for places in best_fit(lengths, self.most_tokens):
            rows = [window[place] for place in places]
            tokens = _of_tokens(self.columns)
            names = {name for name, _ in tokens}
            yield {
                **{name: _joined([row[name] for row in rows]) for name, _ in tokens},
                POSITIONS: Int32s([*chain.from_iterable(range(lengths[place]) for place in places)]),
                LENGTHS: Int32s([lengths[place] for place in places]),
                ROWS: [{name: value for name, value in row.items() if name not in names} for row in rows],
                EXACT: all(row[EXACT] for row in rows),
            }


def best_fit(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Bins of places in `lengths`, whose lengths add up to `most` or less: each, the longest first, goes into the
    fullest bin that has room for it. Bins are in the order of their first places, and places in their own.
    """
    bins: list[list[int]] = []
    spaces: list[tuple[int, int]] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        found = bisect_left(spaces, (lengths[place], -1))
        if found < len(spaces):
            space, number = spaces.pop(found)
        else:
            space, number = most, len(bins)
            bins.append([])
        bins[number].append(place)
        insort(spaces, (space - lengths[place], number))
    return sorted(sorted(each) for each in bins)


def _of_tokens(columns: Columns) -> Columns:
    return [(name, kind) for name, kind in columns if kind in ("ids", "reals")]


def _joined(values: Sequence[Packed[Any]]) -> Packed[Any]:
    return values[0].from_bytes(b"".join(value.raw for value in values))
