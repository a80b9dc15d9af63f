"""The sign-flip test agrees with counting every assignment, and Holm's method with its definition."""

import itertools
import math
import random

import pytest

from rollouthub.statistics.paired_test import paired_test
from rollouthub.statistics.permutation import holm


def counted(differences: list[float]) -> float:
    """The share of all sign assignments whose sum is at least as far from zero as observed."""
    seen = abs(sum(differences)) - 1e-9
    sums = [
        abs(sum(sign * each for sign, each in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(each >= seen for each in sums) / len(sums)


@pytest.mark.parametrize("seed", range(6))
def test_few_differences_are_tested_exactly(seed: int) -> None:
    drawn = random.Random(seed)
    differences = [drawn.choice((-0.5, -0.25, 0.0, 0.25, 0.75, drawn.random())) for _ in range(9)]
    found = paired_test(differences)
    assert found is not None
    assert (found.is_exact, found.p) == (True, pytest.approx(counted(differences)))


def test_passes_and_failures_are_tested_as_mcnemar_does() -> None:
    # 15 tasks lost, 4 won, 100 alike: twice the binomial tail of 19 coins.
    found = paired_test([-1.0] * 15 + [1.0] * 4 + [0.0] * 100)
    assert found is not None
    assert found.p == pytest.approx(2 * sum(math.comb(19, k) for k in range(5)) / 2**19)
    assert found.least == pytest.approx(2 / 2**19)


def test_many_differences_are_tested_as_normal() -> None:
    drawn = random.Random(1)
    differences = [drawn.gauss(0.05, 1.0) for _ in range(400)]
    found = paired_test(differences)
    assert found is not None
    far = abs(sum(differences))
    flips = [abs(sum(drawn.choice((1, -1)) * each for each in differences)) for _ in range(4000)]
    assert not found.is_exact
    assert found.p == pytest.approx(sum(each >= far for each in flips) / 4000, abs=0.04)


def test_two_tasks_show_nothing_and_none_is_no_test() -> None:
    found = paired_test([1.0, 1.0])
    assert found is not None
    assert (found.p, found.least) == (0.5, 0.5)
    assert paired_test([]) is None
    alike = paired_test([0.0, 0.0])
    assert alike is not None
    assert (alike.p, alike.least) == (1.0, 1.0)


def test_holm_multiplies_the_smallest_by_all_and_never_falls() -> None:
    assert holm([0.04, 0.01, 0.03, 0.005]) == pytest.approx([0.06, 0.03, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
