"""Binary and composite rewards."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouthub.authoring.rewards import WeightedReward, binary, composite, product
from rollouthub.messages import assistant
from rollouthub.score import ModelCall, Score, Submission
from rollouthub.task import Public, Secret, Task

FINITE = st.floats(-1e6, 1e6)
TASK = Task(Public(id="t", prompt="2+2?"), Secret(answer="4"))


def correct(task: Task[Public, Secret], submission: Submission) -> bool:
    return submission.final == task.secret.answer


async def brief(task: Task[Public, Secret], submission: Submission) -> float:
    return 1.0 if len(submission.final) < 3 else 0.0


@pytest.mark.parametrize(("passed", "reward"), [(True, 1.0), (False, 0.0)])
def test_binary_reward_is_one_or_zero_and_draws_the_pass_line(passed: bool, reward: float) -> None:
    score = binary(passed, feedback="seen", metrics={"length": 3})

    assert (score.reward, score.passed, score.feedback, score.metrics) == (reward, passed, "seen", {"length": 3.0})


@pytest.mark.parametrize("passed", [None, 1, "yes"])
def test_binary_reward_refuses_what_is_no_verdict(passed: bool) -> None:
    with pytest.raises(ValueError, match="True or False"):
        binary(passed)


def test_composite_adds_the_weighted_parts_and_keeps_them() -> None:
    score = composite({"correct": True, "tokens": 200}, {"correct": 1.0, "tokens": -0.001})

    assert score.reward == pytest.approx(0.8)
    assert (score.components["tokens"].value, score.components["tokens"].weight) == (200.0, -0.001)
    assert score.passed is None


@given(st.dictionaries(st.text(max_size=5), st.tuples(FINITE, FINITE), min_size=1))
def test_composite_of_any_finite_parts_is_a_score(parts: dict[str, tuple[float, float]]) -> None:
    weights = {name: weight or 1.0 for name, (_, weight) in parts.items()}

    score = composite({name: value for name, (value, _) in parts.items()}, weights)

    expected = math.fsum(value * weights[name] for name, (value, _) in parts.items())
    assert score.reward == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("database", "reward", "passed"), [(1.0, 0.5, True), (0.0, 0.0, False)])
def test_product_multiplies_the_parts_and_keeps_them(database: float, reward: float, passed: bool) -> None:
    score = product({"database": database, "words": 0.5}, pass_at=0.5)

    assert (score.reward, score.passed, score.combine) == (reward, passed, "product")
    assert score.components["database"].value == database


def test_product_of_no_parts_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one part"):
        product({})


def test_composite_never_renormalises_its_weights() -> None:
    assert composite({"a": 1, "b": 1}, {"a": 3, "b": 4}).reward == 7.0


def test_a_part_of_weight_zero_is_recorded_and_does_not_count() -> None:
    score = composite({"a": 1, "seen": 9}, {"a": 1, "seen": 0})

    assert score.reward == 1.0
    assert score.components["seen"].value == 9.0


@pytest.mark.parametrize(("pass_at", "passed"), [(0.3, True), (0.31, False), (0.0, True)])
def test_pass_at_is_reached_from_it_on_rounding_forgiven(pass_at: float, passed: bool) -> None:
    weights = {"a": 0.1, "b": 0.1, "c": 0.1}

    assert composite(dict.fromkeys(weights, 1.0), weights, pass_at=pass_at).passed is passed


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        ({"a": 1, "b": 1}, {"a": 1}, "value 'b' has no weight"),
        ({"a": 1}, {"a": 1, "b": 1}, "weight 'b' has no value"),
        ({"a": 1}, {"a": math.nan}, "weight 'a' is nan"),
        ({"a": 1}, {"a": math.inf}, "weight 'a' is inf"),
        ({"a": 1}, {"a": 0}, "all weights are zero: 'a'"),
        ({}, {}, "at least one weight"),
        ({"a": math.nan}, {"a": 1}, "value 'a' is nan"),
        ({"a": None}, {"a": 1}, "value 'a' is None"),
        ({"a": "1"}, {"a": 1}, "value 'a' is '1'"),
        ({"a": 1e308}, {"a": 10}, "the weighted sum is inf"),
    ],
)
def test_composite_refuses_what_it_cannot_add(
    values: Mapping[str, float], weights: Mapping[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        composite(values, weights)


def test_two_rules_for_passing_are_refused() -> None:
    with pytest.raises(ValueError, match="either pass_at or passed"):
        composite({"a": 1}, {"a": 1}, pass_at=1, passed=False)
    with pytest.raises(ValueError, match="either pass_at or passed_by"):
        WeightedReward({"a": correct}, {"a": 1}, pass_at=1, passed_by="a")


async def test_weighted_reward_runs_sync_and_async_parts() -> None:
    reward = WeightedReward({"correct": correct, "brief": brief}, {"correct": 1.0, "brief": 0.1}, passed_by="correct")

    wrong = await reward(TASK, Submission(answer="5"))
    right = await reward(TASK, Submission(answer="4"))

    assert (wrong.reward, wrong.passed) == (0.1, False)
    assert (right.reward, right.passed) == (1.1, True)


async def test_weighted_reward_keeps_all_a_part_says() -> None:
    call = ModelCall(model="judge", messages=(), response=assistant("good"))

    def judged(task: Task[Public, Secret], submission: Submission) -> Score:
        return composite({"tone": 0.5}, {"tone": 1}, feedback="warm", metrics={"words": 7}).model_copy(
            update={
                "judge_calls": (call,),
                "turn_rewards": {0: 1.0, 2: -1.0},
                "seat_rewards": {"buyer": 0.5},
                "metadata": {"rubric": "v2"},
            }
        )

    score = await WeightedReward({"first": judged, "second": judged}, {"first": 2, "second": 1})(TASK, Submission())

    assert score.reward == 1.5
    assert score.metrics == {"first.tone": 0.5, "first.words": 7, "second.tone": 0.5, "second.words": 7}
    assert score.feedback == "first: warm\nsecond: warm"
    assert score.judge_calls == (call, call)
    assert score.turn_rewards == {0: 3.0, 2: -3.0}
    assert score.metadata == {"first": {"rubric": "v2"}, "second": {"rubric": "v2"}}


@pytest.mark.parametrize(
    ("weights", "passed_by", "message"),
    [
        ({"other": 1.0}, None, "function 'correct' has no weight; weight 'other' has no function"),
        ({"correct": 0.0}, None, "all weights are zero"),
        ({"correct": 1.0}, "brief", "passed_by names 'brief'; the parts are 'correct'"),
    ],
)
def test_weighted_reward_checks_itself_when_made(
    weights: dict[str, float], passed_by: str | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        WeightedReward({"correct": correct}, weights, passed_by=passed_by)


async def test_weighted_reward_names_the_part_that_gave_no_reward() -> None:
    def broken(task: Task[Public, Secret], submission: Submission) -> float:
        return math.nan

    with pytest.raises(ValueError, match="reward 'broken' is nan"):
        await WeightedReward({"broken": broken}, {"broken": 1})(TASK, Submission())
