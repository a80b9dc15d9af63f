"""What committed records add up to."""

import random

import msgspec
import pytest

from rollouthub.rollout import Outcome
from rollouthub.score import ModelCall
from rollouthub.telemetry.metrics.counter_histogram import STAGE_BOUNDS, empty
from rollouthub.telemetry.metrics.rollout_tally import MOST_ENVIRONMENTS, MOST_ROLES, OTHER, WINDOW, RolloutTally
from tests.telemetry.records import record


def test_every_kind_of_outcome_is_counted_by_itself() -> None:
    tally = RolloutTally()
    tally.count(record(outcome) for outcome in Outcome for _ in range(2))
    assert tally.of("sums").outcomes == {outcome.value: 2 for outcome in Outcome}
    assert tally.of("sums").scored == 2


def test_where_nothing_is_scored_there_is_no_mean() -> None:
    tally = RolloutTally()
    tally.count([record(Outcome.MODEL_FAILED), record(Outcome.AGENT_FAILED)])
    sums = tally.of("sums")
    assert (sums.scored, sums.rewards.mean, sums.passes.mean) == (0, None, None)


def test_a_score_without_a_verdict_of_passing_neither_passed_nor_failed() -> None:
    tally = RolloutTally()
    tally.count([record(reward=0.5), record(passed=True), record(reward=0.0, passed=False)])
    sums = tally.of("sums")
    assert (sums.passed, sums.failed, sums.scored) == (1, 1, 3)


def test_recent_means_forget_what_is_long_ago() -> None:
    tally = RolloutTally()
    tally.count(record(reward=0.0) for _ in range(1000))
    tally.count(record(reward=1.0) for _ in range(WINDOW // 2))
    assert tally.of("sums").rewards.mean == 0.5
    tally.count(record(reward=1.0) for _ in range(WINDOW // 2))
    assert tally.of("sums").rewards.mean == 1.0


def test_tokens_money_and_retries_are_summed() -> None:
    tally = RolloutTally()
    judged = ModelCall(role="judge", model="m", messages=(), response=None, prompt_tokens=7, cost=None)
    tally.count([record(turns=2, queue=0.5, role_calls=(judged,)), record(turns=1)])
    sums = tally.of("sums")
    policy, judge = sums.spent["policy"], sums.spent["judge"]
    assert (policy.calls, policy.retries, policy.prompt_tokens, policy.output_tokens) == (3, 3, 30, 9)
    assert (policy.dollars, policy.unpriced) == (1.5, 0)
    assert (judge.calls, judge.prompt_tokens, judge.unpriced) == (1, 7, 1)
    assert (sums.retried, sums.model_seconds.count) == (1, 3)


def test_a_stage_that_was_not_reached_is_not_counted_as_short() -> None:
    tally = RolloutTally()
    tally.count([record()])
    assert {name: stage.count for name, stage in tally.of("sums").stages.items()} == {
        "queue": 0,
        "setup": 1,
        "model": 0,
        "tool": 0,
        "agent": 1,
        "verify": 1,
        "close": 0,
        "total": 1,
    }


def test_tallies_of_several_processes_add_up_to_that_of_one() -> None:
    chance = random.Random(7)
    records = [
        record(
            chance.choice(list(Outcome)),
            reward=chance.random(),
            passed=chance.choice([True, False, None]),
            environment=chance.choice(["sums", "dice"]),
            seconds=chance.expovariate(1),
            turns=chance.randrange(3),
        )
        for _ in range(200)
    ]
    one, sent = RolloutTally(), list[bytes]()
    one.count(records)
    for start in range(0, 200, 50):
        part = RolloutTally()
        part.count(records[start : start + 50])
        sent.append(msgspec.json.encode(part))
    added = RolloutTally()
    for each in sent:
        added.add(msgspec.json.decode(each, type=RolloutTally))
    assert added.records == one.records == 200
    for name in ("sums", "dice"):
        ours, theirs = added.of(name), one.of(name)
        assert ours.outcomes == theirs.outcomes
        assert ours.faults == theirs.faults
        assert ours.reward_sum == pytest.approx(theirs.reward_sum)
        assert ours.rewards.mean == pytest.approx(theirs.rewards.mean)
        assert ours.spent == theirs.spent
        assert [stage.counts for stage in ours.stages.values()] == [stage.counts for stage in theirs.stages.values()]


def test_what_is_counted_apart_is_bounded() -> None:
    tally = RolloutTally()
    tally.count(record(environment=f"e{number}") for number in range(MOST_ENVIRONMENTS + 50))
    assert len(tally.environments) == MOST_ENVIRONMENTS + 1
    assert tally.of(OTHER).scored == 50
    calls = tuple(ModelCall(role=f"r{number}", model="m", messages=(), response=None) for number in range(40))
    tally.count([record(environment="e0", role_calls=calls)])
    assert len(tally.of("e0").spent) == MOST_ROLES + 1


def test_a_value_on_a_bound_is_within_it() -> None:
    histogram = empty(STAGE_BOUNDS)
    histogram.observe(0.001)
    histogram.observe(1e6)
    assert (histogram.counts[0], histogram.counts[-1], histogram.count) == (1, 1, 2)
