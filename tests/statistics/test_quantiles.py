"""Quantiles by nearest rank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouthub.statistics.quantiles import quantile, quantiles


@pytest.mark.parametrize(("q", "value"), [(0.0, 1), (0.5, 5), (0.9, 9), (0.91, 10), (0.95, 10), (1.0, 10)])
def test_a_quantile_is_the_smallest_value_that_its_share_does_not_exceed(q: float, value: int) -> None:
    assert quantile(range(1, 11), q) == value


@given(st.lists(st.floats(allow_nan=False), min_size=1), st.floats(0, 1))
def test_a_quantile_was_seen_and_enough_are_no_larger(values: list[float], q: float) -> None:
    (found,) = quantiles(values, (q,))
    assert found in values
    assert sum(value <= found for value in values) >= q * len(values)
