"""The record: closed lists, no score without `scored`, and readable by anyone, later."""

import math
import subprocess
import sys
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import ValidationError

from rollouthub import Message, Outcome, Rollout, Score, Stop, ToolCall, Turn
from rollouthub.rollout import AgentRef, EnvironmentRef, OutcomeKind, TaskRef
from tests.hub.test_messages import reads_back
from tests.strategies import rollouts, tool_calls, turns

patient = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])


def rollout(**changes: Any) -> Rollout:
    fields: dict[str, Any] = {
        "run_id": "r",
        "rollout_id": "r/1",
        "group_id": "g",
        "environment": EnvironmentRef(name="e", version="1", digest="sha256:0"),
        "task": TaskRef(split="test", id="t", digest="sha256:0"),
        "agent": AgentRef(name="a", version="1"),
        "outcome": Outcome.SCORED,
        "stop": Stop.FINISHED,
        "score": Score(reward=1.0),
    }
    return Rollout(**{**fields, **changes})


@patient
@given(tool_calls)
def test_a_tool_call_reads_back_from_json(call: ToolCall) -> None:
    assert reads_back(call)


@patient
@given(turns)
def test_a_turn_reads_back_from_json(turn: Turn) -> None:
    assert reads_back(turn)


@patient
@given(rollouts())
def test_a_rollout_reads_back_from_json(record: Rollout) -> None:
    assert reads_back(record)


def test_the_list_of_outcomes_is_closed() -> None:
    assert [outcome.value for outcome in Outcome] == [
        "scored",
        "agent_failed",
        "model_failed",
        "environment_failed",
        "sandbox_failed",
        "verifier_failed",
        "cancelled",
    ]


def test_every_outcome_has_a_kind_and_every_kind_an_outcome() -> None:
    assert {outcome.kind for outcome in Outcome} == set(get_args(OutcomeKind))


def test_the_list_of_stops_is_closed() -> None:
    assert [stop.value for stop in Stop] == [
        "finished",
        "submitted",
        "turn_limit",
        "token_limit",
        "time_limit",
        "cost_limit",
        "context_limit",
        "interrupted",
        "cancelled",
        "failed",
    ]


def test_scored_without_a_score_is_refused() -> None:
    with pytest.raises(ValidationError, match="contradict"):
        rollout(score=None)


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.SCORED])
def test_a_score_without_scored_is_refused(outcome: Outcome) -> None:
    with pytest.raises(ValidationError, match="contradict"):
        rollout(outcome=outcome)
    assert rollout(outcome=outcome, score=None).reward is None


def test_a_reward_of_zero_is_not_absence() -> None:
    assert rollout(score=Score(reward=0.0)).reward == 0.0


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_times_costs_and_rewards_of_a_turn_are_finite(value: float) -> None:
    for field in ("cost", "seconds", "started", "reward"):
        with pytest.raises(ValidationError, match="finite"):
            Turn.model_validate({"index": 0, "messages": (), "response": Message(role="assistant"), field: value})


def test_a_record_with_a_field_from_elsewhere_is_refused() -> None:
    with pytest.raises(ValidationError, match="extra_forbidden"):
        Rollout.model_validate({**rollout().model_dump(), "mood": "good"})


READER = """
import sys
for sibling in ("servers", "agents", "sandboxes", "registry", "tui"):
    sys.modules[f"rollouthub_{sibling}"] = None  # an import of it now fails
from rollouthub import Rollout
record = Rollout.model_validate_json(sys.stdin.read())
assert record.reward == 0.5 and record.turns[0].response.text == "42" and record.turns[0].reward == 0.25
print(record.environment.name)
"""


def test_a_record_is_readable_without_the_environment_installed() -> None:
    turn = Turn(index=0, messages=(), response=Message(role="assistant", content="42"), reward=0.25)
    record = rollout(
        environment=EnvironmentRef(name="someone/gone", version="1", digest="sha256:0"),
        score=Score(reward=0.5),
        turns=(turn,),
    )
    command = [sys.executable, "-c", READER]
    done = subprocess.run(command, input=record.model_dump_json(), capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == "someone/gone\n"
