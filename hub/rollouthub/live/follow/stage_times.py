"""Quantiles of each stage's duration, from a sketch: counts by magnitude, which can be merged and subtracted.

A duration's bucket is the upper half of its bits as a 32-bit float: sign, exponent and 7 bits of mantissa. 128 buckets
cover a factor of two, so the middle of a bucket is within 0.4 % of every value in it. Reading those bits from an array
takes no arithmetic; exact quantiles would sort eight columns at each update.
"""

import math
import struct
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.incremental import IncrementalView
from rollouthub.statistics.quantiles import QUANTILES, quantiles, rank
from rollouthub.store.reader import STAGES

_COLUMNS = {stage: "seconds" if stage == "total" else f"{stage}_seconds" for stage in STAGES}
MOST_EXACT = 50_000
"""Most attempts of an ended run whose quantiles are computed exactly for a screen: a tenth of a second."""
_INFINITE = 0x7F80
_UPPER = 1 if sys.byteorder == "little" else 0


class StageQuantiles(IncrementalView):
    """Quantiles of the seconds of each stage, over effective attempts."""

    def __init__(self, columns: AttemptColumns) -> None:
        super().__init__(columns)
        self._clear()

    def _clear(self) -> None:
        self._counts: dict[str, Counter[int]] = {stage: Counter() for stage in STAGES}

    def _add(self, start: int, stop: int) -> None:
        for stage, column in _COLUMNS.items():
            self._counts[stage].update(_buckets(self._columns.effective_part(column, start, stop)))

    def _withdraw(self, place: int) -> None:
        for stage, column in _COLUMNS.items():
            self._counts[stage].subtract(_buckets([self._columns.numbers[column][place]]))

    def exact(self, qs: Sequence[float] = QUANTILES) -> dict[str, tuple[float, ...]]:
        """Seconds at these quantiles (nearest rank) by stage, as the store computes them; empty without rows.

        It sorts all rows anew: for what is drawn once.
        """
        columns = self._columns
        found = {stage: array("d", columns.effective_part(name, 0, len(columns))) for stage, name in _COLUMNS.items()}
        return {stage: quantiles(values, qs) for stage, values in found.items() if values}

    def shown(self, qs: Sequence[float] = QUANTILES, *, is_live: bool) -> tuple[dict[str, tuple[float, ...]], bool]:
        """The quantiles for a screen, and whether they are exact: those of a run that has ended are, if it is not
        large.
        """
        is_exact = not is_live and len(self._columns) <= MOST_EXACT
        return (self.exact(qs) if is_exact else self.quantiles(qs)), is_exact

    def quantiles(self, qs: Sequence[float] = QUANTILES) -> dict[str, tuple[float, ...]]:
        """Seconds at these quantiles (nearest rank, within 0.4 %) by stage; empty without rows."""
        return {stage: _at(counts, qs) for stage, counts in self._counts.items() if counts.total()}


def _buckets(seconds: Iterable[float]) -> list[int]:
    """The buckets of durations; a negative duration, as after a clock was set back, counts as zero."""
    values = tuple(seconds)
    try:
        floats = struct.pack(f"{len(values)}f", *values)
    except OverflowError:  # what no 32 bits hold is infinite
        floats = array("f", values).tobytes()
    halves = memoryview(floats).cast("H")[_UPPER::2].tolist()
    return [0 if half & 0x8000 else half for half in halves] if values and min(values) < 0 else halves


def _at(counts: Counter[int], qs: Sequence[float]) -> tuple[float, ...]:
    total = counts.total()
    ranks = [rank(q, total) for q in qs]
    found: dict[int, float] = {}
    passed = 0
    for bucket in sorted(counts):
        passed += counts[bucket]
        for place in ranks:
            if place <= passed and place not in found:
                found[place] = _middle(bucket)
    return tuple(found[place] for place in ranks)


def _middle(bucket: int) -> float:
    if not bucket:
        return 0.0
    if bucket >= _INFINITE:
        return math.inf
    (seconds,) = struct.unpack("<f", struct.pack("<I", bucket << 16 | 0x8000))
    return seconds
