"""Versions on records: the server's word, else what was in force when a call began."""

from typing import Any

from rollouthub import Message, Outcome, Rollout, Score, Stop, Turn
from rollouthub.rollout import AgentRef, EnvironmentRef, TaskRef
from rollouthub.trainers.stream.policy_version import TOKEN_VERSIONS, PolicyVersions, stamped
from rollouthub.values import Int32s


def turn(index: int, started: float, seconds: float = 1.0, finish_reason: str | None = "stop", **more: Any) -> Turn:
    return Turn(
        index=index,
        messages=(),
        response=Message(role="assistant", content="done"),
        started=started,
        seconds=seconds,
        finish_reason=finish_reason,
        **more,
    )


def record(*turns: Turn) -> Rollout:
    return Rollout(
        run_id="run",
        rollout_id="group-0",
        group_id="group",
        environment=EnvironmentRef(name="world", version="1", digest=""),
        task=TaskRef(split="test", id="1", digest=""),
        agent=AgentRef(name="tool_loop", version="1"),
        outcome=Outcome.SCORED,
        stop=Stop.FINISHED,
        score=Score(reward=1.0),
        turns=turns,
        started_at=100.0,
    )


def policy_of(*changes: float) -> PolicyVersions:
    """Version 0 first, and one more at each of these times."""
    times = iter(changes)
    policy = PolicyVersions(0, lambda: next(times))
    for version in range(1, len(changes) + 1):
        policy.advance(version)
    return policy


def test_a_turn_has_the_version_that_was_in_force_when_its_call_began() -> None:
    rollout = stamped(record(turn(0, 1.0), turn(1, 6.0), turn(2, 16.0)), policy_of(105.0, 115.0))
    assert [each.policy_version for each in rollout.turns] == [0, 1, 2]
    assert (rollout.policy_version_min, rollout.policy_version_max) == (0, 2)
    assert rollout.gaps == ()


def test_a_call_during_which_weights_changed_is_as_old_as_its_oldest_token() -> None:
    rollout = stamped(record(turn(0, 1.0, seconds=8.0)), policy_of(105.0))
    assert rollout.turns[0].policy_version == 0
    assert (rollout.policy_version_min, rollout.policy_version_max) == (0, 1)
    assert rollout.gaps == (TOKEN_VERSIONS,)


def test_what_the_server_says_stands() -> None:
    said = record(
        turn(0, 1.0, policy_version=7), turn(1, 2.0, policy_versions=Int32s([8, 9]), output_token_ids=Int32s([1, 2]))
    )
    rollout = stamped(said.model_copy(update={"policy_version_min": 7}), policy_of(105.0))
    assert rollout.turns == said.turns


def test_what_no_policy_said_has_no_version() -> None:
    rollout = stamped(record(turn(0, 1.0, finish_reason=None), turn(1, 2.0, model="openai/other")), policy_of(100.5))
    assert [each.policy_version for each in rollout.turns] == [None, None]
    assert rollout.policy_version_min is None
