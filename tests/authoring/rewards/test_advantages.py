"""Baselines and advantages within a group."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouthub.authoring.rewards import GroupMethod, group_advantages, group_baseline, is_constant

METHODS: tuple[GroupMethod, ...] = ("mean", "mean_std", "leave_one_out")
REWARDS = st.floats(-1e3, 1e3)
GROUPS = st.lists(st.none() | REWARDS, max_size=12)
METHOD = st.sampled_from(METHODS)


def scored(values: list[float | None]) -> list[float]:
    return [value for value in values if value is not None]


@given(GROUPS, METHOD)
def test_unscored_members_stay_unscored_in_their_places(group: list[float | None], method: GroupMethod) -> None:
    for values in (group_advantages(group, method), group_baseline(group, method)):
        assert [value is None for value in values] == [reward is None for reward in group]
        assert all(math.isfinite(value) for value in scored(values))


@given(GROUPS, METHOD)
def test_unscored_members_change_no_other(group: list[float | None], method: GroupMethod) -> None:
    alone = group_advantages(scored(group), method)

    assert scored(group_advantages(group, method)) == alone


@given(GROUPS, METHOD)
def test_advantages_add_up_to_nothing(group: list[float | None], method: GroupMethod) -> None:
    advantages = scored(group_advantages(group, method))

    assert math.fsum(advantages) == pytest.approx(0.0, abs=1e-6)


@given(GROUPS, METHOD, st.integers(-1000, 1000))
def test_advantages_do_not_see_a_shift(group: list[float | None], method: GroupMethod, shift: int) -> None:
    # Eighths add without rounding, so that equal rewards stay equal.
    coarse = [None if reward is None else round(reward * 8) / 8 for reward in group]
    shifted = [None if reward is None else reward + shift for reward in coarse]

    assert scored(group_advantages(shifted, method)) == pytest.approx(
        scored(group_advantages(coarse, method)), abs=1e-6
    )


@given(st.lists(REWARDS, min_size=2, max_size=12))
def test_leave_one_out_is_the_centred_reward_stretched(group: list[float]) -> None:
    stretch = len(group) / (len(group) - 1)

    centred = scored(group_advantages(group, "mean"))

    assert scored(group_advantages(group, "leave_one_out")) == pytest.approx([stretch * a for a in centred], abs=1e-9)


@given(st.lists(REWARDS, min_size=2, max_size=12))
def test_leave_one_out_measures_against_all_others(group: list[float]) -> None:
    others = [statistics.fmean(group[:i] + group[i + 1 :]) for i in range(len(group))]

    assert group_baseline(group, "leave_one_out") == pytest.approx(others, abs=1e-9)


@given(st.lists(REWARDS, max_size=12))
@pytest.mark.parametrize("method", ["mean", "leave_one_out"])
def test_an_advantage_is_the_reward_less_its_baseline(method: GroupMethod, group: list[float]) -> None:
    baseline = scored(group_baseline(group, method))

    expected = [reward - base for reward, base in zip(group, baseline, strict=True)]

    assert group_advantages(group, method) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.integers(-100, 100), min_size=2, max_size=12).filter(lambda group: len(set(group)) > 1))
def test_dividing_by_the_deviation_gives_unit_spread(group: list[int]) -> None:
    assert statistics.stdev(scored(group_advantages(group, "mean_std"))) == pytest.approx(1.0, abs=1e-4)


@given(REWARDS, st.integers(0, 12), METHOD)
def test_a_constant_group_has_zero_advantages(reward: float, size: int, method: GroupMethod) -> None:
    group = [reward] * size

    assert is_constant(group)
    assert group_advantages([*group, None], method) == [0.0] * size + [None]
    assert group_baseline([*group, None], method) == [*group, None]


def test_a_constant_group_is_told_by_its_scored_members() -> None:
    assert is_constant([None, None])
    assert is_constant([1.0, None, 1.0])
    assert not is_constant([1.0, None, 0.0])


def test_grpo_advantages_of_a_known_group() -> None:
    assert group_advantages([1.0, 0.0, None, 0.0, 1.0], "mean_std", eps=0.0) == pytest.approx(
        [math.sqrt(3) / 2, -math.sqrt(3) / 2, None, -math.sqrt(3) / 2, math.sqrt(3) / 2]
    )


def test_a_group_of_nearly_equal_rewards_is_not_blown_up() -> None:
    advantages = scored(group_advantages([0.1, 0.1, math.nextafter(0.1, 1)], "mean_std"))

    assert max(map(abs, advantages)) < 1e-9


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_reward_that_is_not_finite_is_refused(reward: float) -> None:
    with pytest.raises(ValueError, match="reward 1 is"):
        group_advantages([0.0, reward], "mean")
