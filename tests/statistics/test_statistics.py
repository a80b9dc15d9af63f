"""Honest means, pass@k, avg@k and their intervals."""

import itertools
import math
import random
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouthub.rollout import Outcome
from rollouthub.statistics import (
    Estimate,
    GroupCounts,
    RunningMeans,
    avg_at_k,
    pass_at_k,
    summarise_groups,
    wilson_interval,
)
from rollouthub.statistics.intervals import t_quantile

UNSCORED = [outcome for outcome in Outcome if outcome is not Outcome.SCORED]
VERDICTS = st.tuples(st.just(Outcome.SCORED), st.floats(-10, 10), st.none() | st.booleans())
FAILURES = st.tuples(st.sampled_from(UNSCORED), st.none(), st.none())
ENDINGS = st.lists(VERDICTS | FAILURES, max_size=30)

Ending = tuple[Outcome, float | None, bool | None]


def means(endings: list[Ending], planned: int = 0) -> RunningMeans:
    running = RunningMeans(planned=planned)
    for outcome, reward, passed in endings:
        running.add(outcome, reward, passed)
    return running


def binary_group(
    task: int, passed: int, scored: int, planned: int | None = None, environment: str = "e"
) -> GroupCounts:
    return GroupCounts(environment, str(task), planned or scored, scored, passed, float(passed), float(passed))


# --- means ------------------------------------------------------------------------------------------------------


def test_means_count_what_was_scored_and_say_how_much_that_is() -> None:
    running = means(
        [
            (Outcome.SCORED, 1.0, True),
            (Outcome.SCORED, 0.0, False),
            (Outcome.AGENT_FAILED, None, None),
            (Outcome.MODEL_FAILED, None, None),
            (Outcome.SANDBOX_FAILED, None, None),
            (Outcome.VERIFIER_FAILED, None, None),
            (Outcome.CANCELLED, None, None),
        ],
        planned=8,
    )

    assert running.mean_reward == 0.5
    assert running.coverage == 0.25
    assert running.mean_reward_strict == pytest.approx(1 / 3)
    assert running.pass_rate == 0.5
    assert running.kinds == {
        "scored": 2,
        "agent_failure": 1,
        "infrastructure_fault": 2,
        "verifier_fault": 1,
        "cancelled": 1,
    }
    assert running.finished == 7


def test_nothing_scored_has_no_mean_and_is_not_zero() -> None:
    running = means([(Outcome.MODEL_FAILED, None, None)], planned=1)

    assert (running.mean_reward, running.mean_reward_strict, running.pass_rate) == (None, None, None)
    assert running.coverage == 0.0
    assert RunningMeans().coverage is None


def test_agent_failures_alone_have_a_strict_mean_at_the_floor() -> None:
    running = RunningMeans(planned=1, floor=-1.0)
    running.add(Outcome.AGENT_FAILED)

    assert (running.mean_reward, running.mean_reward_strict) == (None, -1.0)


def test_pass_rate_is_over_rollouts_with_a_verdict() -> None:
    assert means([(Outcome.SCORED, 0.4, None)]).pass_rate is None
    assert means([(Outcome.SCORED, 0.4, None), (Outcome.SCORED, 1.0, True)]).pass_rate == 1.0


@given(ENDINGS, ENDINGS)
def test_merged_means_are_those_of_all(first: list[Ending], second: list[Ending]) -> None:
    merged, together = means(first, planned=40), means(first + second, planned=70)
    merged.merge(means(second, planned=30))

    assert (merged.outcomes, merged.judged, merged.passed) == (together.outcomes, together.judged, together.passed)
    assert merged.mean_reward == pytest.approx(together.mean_reward)
    assert merged.mean_reward_strict == pytest.approx(together.mean_reward_strict)
    assert merged.coverage == together.coverage


@pytest.mark.parametrize(
    ("outcome", "reward", "passed"),
    [
        (Outcome.SCORED, None, None),
        (Outcome.SCORED, math.nan, None),
        (Outcome.AGENT_FAILED, 0.0, None),
        (Outcome.CANCELLED, None, False),
    ],
)
def test_a_reward_exists_only_when_scored(outcome: Outcome, reward: float | None, passed: bool | None) -> None:
    with pytest.raises(ValueError, match="reward"):
        RunningMeans().add(outcome, reward, passed)


def test_means_with_different_floors_do_not_merge() -> None:
    with pytest.raises(ValueError, match="floors"):
        RunningMeans(floor=0.0).merge(RunningMeans(floor=-1.0))


def test_the_json_figures_name_only_outcomes_that_occurred() -> None:
    assert means([(Outcome.SCORED, 1.0, True), (Outcome.CANCELLED, None, None)], planned=2).to_json() == {
        "planned": 2,
        "scored": 1,
        "coverage": 0.5,
        "mean_reward": 1.0,
        "mean_reward_strict": 1.0,
        "pass_rate": 1.0,
        "outcomes": {"scored": 1, "cancelled": 1},
    }


# --- pass@k and avg@k -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(1, 8))
def test_pass_at_k_is_the_share_of_all_sets_that_hold_a_pass(n: int) -> None:
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        sets = list(itertools.combinations([True] * c + [False] * (n - c), k))

        assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, sets)) / len(sets), abs=1e-15)


@given(st.integers(1, 300), st.data())
def test_pass_at_k_grows_with_k_from_the_pass_rate(n: int, data: st.DataObject) -> None:
    c = data.draw(st.integers(0, n))
    curve = [pass_at_k(n, c, k) for k in range(1, n + 1)]

    assert curve == sorted(curve)
    assert curve[0] == pytest.approx(c / n)
    assert curve[-1] == (1.0 if c else 0.0)


def test_pass_at_k_stands_for_very_many_samples() -> None:
    assert pass_at_k(10_000, 1, 5_000) == pytest.approx(0.5)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 1, 5), (4, 1, 0), (4, 5, 1), (4, -1, 1), (0, 0, 1)])
def test_pass_at_k_is_not_guessed_from_too_few_samples(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="samples"):
        pass_at_k(n, c, k)


def test_avg_at_k_is_the_mean_over_all_sets_whatever_k_is() -> None:
    rewards = [0.0, 0.25, 1.0, 0.5]
    for k in range(1, 5):
        sets = [sum(chosen) / k for chosen in itertools.combinations(rewards, k)]

        assert avg_at_k(4, sum(rewards), k) == pytest.approx(sum(sets) / len(sets))


# --- intervals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("passed", "trials", "low", "high"), [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (30, 30, 0.8865, 1.0)]
)
def test_wilson_interval_of_known_proportions(passed: int, trials: int, low: float, high: float) -> None:
    assert wilson_interval(passed, trials) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 1000), st.data())
def test_wilson_interval_holds_its_proportion(trials: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, trials))
    low, high = wilson_interval(passed, trials)

    assert 0.0 <= low <= passed / trials <= high <= 1.0


def test_no_trials_are_no_proportion() -> None:
    with pytest.raises(ValueError, match="no proportion"):
        wilson_interval(0, 0)


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (5, 2.5706), (29, 2.0452), (10**6, 1.95997)]
)
def test_t_quantiles_agree_with_the_tables(freedom: int, quantile: float) -> None:
    assert t_quantile(freedom) == pytest.approx(quantile, rel=2e-3)


def test_one_sample_a_task_has_the_plain_wilson_interval() -> None:
    row = summarise_groups(binary_group(task, int(task < 18), 1) for task in range(30)).overall.at_k[0]

    assert row.pass_at_k is not None
    assert (row.pass_at_k.low, row.pass_at_k.high) == pytest.approx(wilson_interval(18, 30))
    assert row.avg_at_k == row.pass_at_k


def test_a_mean_reward_has_a_student_interval_over_tasks() -> None:
    groups = [GroupCounts("e", str(task), 2, 2, None, 2 * value, 2 * value**2) for task, value in enumerate([1, 2, 3])]

    row = summarise_groups(groups).overall.at_k[1]

    assert row.pass_at_k is None
    assert row.avg_at_k.value == 2.0
    assert (row.avg_at_k.low, row.avg_at_k.high) == pytest.approx((2 - 4.3027 / 3**0.5, 2 + 4.3027 / 3**0.5), abs=1e-4)


def test_repeats_narrow_an_interval_no_further_than_the_tasks_allow() -> None:
    def width(groups: list[GroupCounts]) -> float:
        estimate = summarise_groups(groups, [1]).overall.at_k[0].pass_at_k
        assert estimate is not None and estimate.low is not None and estimate.high is not None
        return estimate.high - estimate.low

    once = width([binary_group(task, task % 2, 1) for task in range(40)])
    clustered = width([binary_group(task, task % 2 * 16, 16) for task in range(40)])
    independent = width([binary_group(task, 8, 16) for task in range(40)])

    assert clustered == pytest.approx(once, rel=0.05)
    assert independent < once / 3


def test_a_perfect_score_is_not_a_certain_one() -> None:
    row = summarise_groups(binary_group(task, 8, 8) for task in range(30)).overall.at_k[0]

    assert row.pass_at_k is not None
    assert row.pass_at_k.value == 1.0
    assert (row.pass_at_k.low, row.pass_at_k.high) == pytest.approx(wilson_interval(30, 30))


def test_one_task_has_no_interval() -> None:
    row = summarise_groups([binary_group(0, 3, 8)]).overall.at_k[0]

    assert row.pass_at_k == Estimate(0.375, None, None, 1, 0)


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize(("alpha", "beta"), [(0.3, 0.3), (2.0, 2.0), (50.0, 50.0), (8.0, 1.0)])
def test_intervals_cover_the_truth_about_as_often_as_they_say(alpha: float, beta: float, k: int) -> None:
    # Tasks whose difficulty is Beta distributed: from all-or-nothing to all alike.
    dice = random.Random(7)
    # E[(1 - p)^k] of a Beta.
    truth = 1 - math.prod((beta + i) / (alpha + beta + i) for i in range(k))
    tasks, repeats, runs = 40, 8, 300

    covered = 0
    for _ in range(runs):
        groups: list[GroupCounts] = []
        for task in range(tasks):
            skill = dice.betavariate(alpha, beta)
            groups.append(binary_group(task, sum(dice.random() < skill for _ in range(repeats)), repeats))
        estimate = summarise_groups(groups, [k]).overall.at_k[0].pass_at_k
        assert estimate is not None and estimate.low is not None and estimate.high is not None
        covered += estimate.low <= truth <= estimate.high

    assert covered / runs > 0.91


# --- the table --------------------------------------------------------------------------------------------------


def test_tasks_with_too_few_samples_are_left_out_and_counted() -> None:
    groups = [binary_group(0, 2, 4), binary_group(1, 1, 2, planned=4), binary_group(2, 0, 0, planned=4)]

    overall = summarise_groups(groups).overall

    assert [row.k for row in overall.at_k] == [1, 2, 4]
    assert [row.avg_at_k.tasks for row in overall.at_k] == [2, 2, 1]
    assert [row.avg_at_k.excluded for row in overall.at_k] == [1, 1, 2]
    assert [row.pass_at_k.value for row in overall.at_k if row.pass_at_k] == pytest.approx([0.5, (5 / 6 + 1) / 2, 1.0])
    assert (overall.coverage, overall.mean_reward, overall.pass_rate) == (0.5, 0.5, 0.5)


def test_a_k_no_task_reaches_has_no_value() -> None:
    row = summarise_groups([binary_group(0, 1, 2)], [8]).overall.at_k[0]

    assert row.pass_at_k == row.avg_at_k == Estimate(None, None, None, 0, 1)


def test_tasks_weigh_the_same_however_many_samples_they_have() -> None:
    groups = [binary_group(0, 8, 8), binary_group(1, 0, 1, planned=8)]

    overall = summarise_groups(groups).overall

    assert overall.at_k[0].avg_at_k.value == 0.5
    assert overall.mean_reward == pytest.approx(8 / 9)


def test_a_verifier_without_a_pass_line_has_no_pass_figures() -> None:
    overall = summarise_groups([GroupCounts("e", "0", 2, 2, None, 1.5, 1.25)]).overall

    assert overall.pass_rate is None
    assert [row.pass_at_k for row in overall.at_k] == [None, None]
    assert overall.at_k[0].avg_at_k.value == 0.75


def test_samples_without_a_verdict_are_no_failures() -> None:
    overall = summarise_groups([GroupCounts("e", "0", 4, 4, 2, 2.5, 2.1, judged=2)]).overall

    assert overall.pass_rate == 1.0
    assert [row.pass_at_k.tasks for row in overall.at_k if row.pass_at_k] == [1, 1, 0]


def test_constant_groups_are_counted() -> None:
    groups = [
        binary_group(0, 0, 4),
        binary_group(1, 4, 4),
        binary_group(2, 1, 4),
        binary_group(3, 1, 1),
        GroupCounts("e", "4", 3, 3, None, 3 * 0.1, 3 * 0.1**2),
        GroupCounts("e", "5", 2, 2, None, 2000.01, 1000.0**2 + 1000.01**2),
    ]

    assert summarise_groups(groups).overall.constant_groups == 3


def test_environments_are_summed_up_apart_and_together() -> None:
    groups = [binary_group(0, 1, 1, environment="a"), binary_group(0, 0, 2, environment="b")]

    summary = summarise_groups(groups)

    assert {name: each.mean_reward for name, each in summary.environments.items()} == {"a": 1.0, "b": 0.0}
    assert [len(each.at_k) for each in summary.environments.values()] == [1, 2]
    assert summary.overall.tasks == 2
    assert [row.avg_at_k.value for row in summary.overall.at_k] == [0.5, 0.0]
    assert [row.avg_at_k.excluded for row in summary.overall.at_k] == [0, 1]


COUNTS = st.integers(0, 8).flatmap(lambda scored: st.tuples(st.integers(0, scored), st.just(scored)))


@given(st.lists(st.tuples(st.sampled_from("ab"), COUNTS), max_size=20))
def test_the_whole_is_the_same_however_it_is_split(rows: list[tuple[str, tuple[int, int]]]) -> None:
    apart = [binary_group(task, *counts, environment=name) for task, (name, counts) in enumerate(rows)]
    together = [binary_group(task, *counts) for task, (_, counts) in enumerate(rows)]

    whole, merged = summarise_groups(together).overall, summarise_groups(apart).overall

    assert [row.k for row in merged.at_k] == [row.k for row in whole.at_k]
    for mine, theirs in zip(merged.at_k, whole.at_k, strict=True):
        for one, other in ((mine.avg_at_k, theirs.avg_at_k), (mine.pass_at_k, theirs.pass_at_k)):
            if one is None or other is None:
                assert one is other
                continue
            assert (one.tasks, one.excluded) == (other.tasks, other.excluded)
            for got, wanted in ((one.value, other.value), (one.low, other.low), (one.high, other.high)):
                assert got == pytest.approx(wanted, abs=1e-6)


def test_no_groups_make_an_empty_table() -> None:
    overall = summarise_groups([]).overall

    assert (overall.tasks, overall.mean_reward, overall.coverage, overall.pass_rate) == (0, None, None, None)


@pytest.mark.parametrize("ks", [[], [0], [1, 1]])
def test_ks_that_mean_nothing_are_refused(ks: list[int]) -> None:
    with pytest.raises(ValueError, match="ks must be"):
        summarise_groups([], ks)


def test_many_groups_are_read_once_in_constant_memory() -> None:
    def stream() -> Iterator[GroupCounts]:
        return (binary_group(task, task % 9, 8) for task in range(20_000))

    tracemalloc.start()
    summary = summarise_groups(stream())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert summary.overall.tasks == 20_000
    assert peak < 1_000_000
