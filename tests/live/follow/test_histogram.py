"""Histograms: few bins, whatever comes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollouthub.live.follow.attempt_columns import KINDS, AttemptColumns
from rollouthub.live.follow.reward_histogram import MOST_BINS, RewardHistogram
from rollouthub.live.follow.stage_times import StageQuantiles
from rollouthub.store.sql_schema import SUMMARY_COLUMNS

_BLANK: dict[str, Any] = {"words": "w", "text": "t", "real": 0.0, "whole": 0, "flag": 1}


def add(columns: AttemptColumns, name: str, values: list[float]) -> None:
    """Append rows of which one column is told."""
    first = len(columns) + 1
    for number, value in enumerate(values):
        fields = {column: _BLANK[kind] for column, kind in KINDS.items()}
        fields |= {"outcome": "scored", "stop": "finished", name: value}
        columns.append([(first + number, *(fields[column] for column in SUMMARY_COLUMNS))])


def test_rewards_of_zero_and_one_have_bins_of_a_twentieth() -> None:
    columns = AttemptColumns()
    histogram = RewardHistogram(columns)
    add(columns, "reward", [0.0, 1.0, 1.0, 0.15])
    histogram.catch_up()
    found = [(round(bin.low, 9), round(bin.high, 9), bin.count) for bin in histogram.bins if bin.count]
    assert found == [(0.0, 0.05, 1), (0.15, 0.2, 1), (1.0, 1.05, 2)]
    assert len(histogram.bins) == 21


@given(st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3), min_size=1, max_size=4))
def test_bins_are_few_and_do_not_depend_on_the_order_of_looks(batches: list[list[float]]) -> None:
    columns, whole = AttemptColumns(), AttemptColumns()
    histogram = RewardHistogram(columns)
    for batch in batches:
        add(columns, "reward", batch)
        histogram.catch_up()
    add(whole, "reward", [reward for batch in batches for reward in batch])
    anew = RewardHistogram(whole)
    anew.catch_up()
    assert histogram.bins == anew.bins
    assert len(histogram.bins) <= MOST_BINS
    assert sum(bin.count for bin in histogram.bins) == sum(map(len, batches))


def test_a_duration_below_zero_counts_as_none() -> None:
    columns = AttemptColumns()
    stages = StageQuantiles(columns)
    add(columns, "setup_seconds", [-1.0, -5.0, 2.0])
    stages.catch_up()
    low, high = stages.quantiles((0.5, 0.99))["setup"]
    assert low == 0.0
    assert abs(high - 2) < 0.01


def test_a_duration_beyond_all_measure_is_counted() -> None:
    columns = AttemptColumns()
    stages = StageQuantiles(columns)
    add(columns, "setup_seconds", [1.0, 1e300, 1.0])
    stages.catch_up()
    half, last = stages.quantiles((0.5, 0.99))["setup"]
    assert abs(half - 1) < 0.01
    assert last > 1e38
