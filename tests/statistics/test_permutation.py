"""A permutation test says how often chance makes such a difference; held against all ways, gone through one by one."""

from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouthub.statistics.permutation import DRAWS, adjusted, permutation_test

rewards = st.lists(st.sampled_from([0.0, 1.0, 0.25, 0.5]), min_size=1, max_size=5)


def gone_through(first: list[float], second: list[float]) -> tuple[float, float]:
    """p and the least p, by dealing the rewards out in every way."""
    pooled = first + second

    def away(chosen: tuple[int, ...]) -> float:
        ones = [pooled[place] for place in chosen]
        others = [pooled[place] for place in range(len(pooled)) if place not in chosen]
        return abs(sum(ones) / len(ones) - sum(others) / len(others))

    every = [away(chosen) for chosen in combinations(range(len(pooled)), len(first))]
    seen = away(tuple(range(len(first))))
    return (
        sum(d >= seen - 1e-9 for d in every) / len(every),
        sum(d >= max(every) - 1e-9 for d in every) / len(every),
    )


@given(rewards, rewards)
def test_p_is_the_share_of_ways_that_differ_as_much(first: list[float], second: list[float]) -> None:
    found = permutation_test(first, second)
    assert found is not None
    assert found.is_exact
    assert (found.p, found.least) == pytest.approx(gone_through(first, second))


def test_known_values() -> None:
    # Fisher's exact test of 4 of 4 against 0 of 4: 2 / C(8, 4).
    found = permutation_test([1.0] * 4, [0.0] * 4)
    assert found is not None
    assert (found.p, found.least) == (2 / 70, 2 / 70)
    assert permutation_test([], [1.0]) is None
    one = permutation_test([0.0], [1.0])
    assert one is not None
    assert (one.p, one.least) == (1.0, 1.0)
    many = permutation_test([1.0] * 400 + [0.0] * 100, [0.0] * 400 + [1.0] * 100)
    assert many is not None
    assert many.p < 1e-50
    assert many.is_exact


def test_where_there_are_too_many_ways_some_are_drawn_always_the_same() -> None:
    first, second = [n / 40 for n in range(20)], [0.3 + n / 37 for n in range(20)]
    assert comb(40, 20) > DRAWS
    found = permutation_test(first, second)
    assert found is not None
    assert found == permutation_test(first, second)
    assert not found.is_exact
    assert 1 / (DRAWS + 1) <= found.p < 0.01
    alike = permutation_test(first, [reward + 1e-3 for reward in first])
    assert alike is not None
    assert alike.p > 0.8


def test_many_tests_are_adjusted_as_benjamini_and_hochberg_do() -> None:
    assert adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert adjusted([]) == []
    assert adjusted([1.0, 1.0]) == [1.0, 1.0]


def test_up_to_28_rewards_of_any_value_are_weighed_exactly() -> None:
    found = permutation_test([n / 7 for n in range(14)], [0.05 + n / 9 for n in range(14)])
    assert found is not None
    assert found.is_exact
    assert found.least == pytest.approx(2 / comb(28, 14), rel=0.6)
