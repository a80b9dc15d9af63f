"""What tests leave as a reward: one finite number or several, and anything else is a fault, never 0."""

import pytest

from rollouthub.errors import VerifierError
from rollouthub_servers.terminal.reward import over_steps, parse_json, parse_text, total


@pytest.mark.parametrize(("data", "reward"), [(b"1", 1.0), (b" 0.25\n", 0.25), (b"-3e-1", -0.3)])
def test_a_number_is_a_reward(data: bytes, reward: float) -> None:
    assert parse_text(data) == {"reward": reward}
    assert parse_json(data) == {"reward": reward}


@pytest.mark.parametrize("data", [b"", b"\n", b"nan", b"inf", b"1e999", b"one", b"1 1", b"\xff", b"reward: 1"])
def test_what_is_no_finite_number_is_a_fault(data: bytes) -> None:
    with pytest.raises(VerifierError, match="the tests left no reward"):
        parse_text(data)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{}", b"[1]", b'"1"', b"true", b"null", b"NaN", b'{"a": NaN}', b'{"a": "1"}', b'{"a": true}'),
        *(b"1e999", b'{"reward": 1', b"9" * 400, b"[" * 100_000),
    ],
)
def test_json_that_holds_no_finite_numbers_is_a_fault(data: bytes) -> None:
    with pytest.raises(VerifierError, match="the tests left no reward"):
        parse_json(data)


def test_rewards_by_name_are_kept_and_the_one_called_reward_counts() -> None:
    whole = total(parse_json(b'{"reward": 0.5, "style": 1}'), None)
    assert whole.reward == 0.5
    assert {name: part.weight for name, part in whole.components.items()} == {"reward": 1.0, "style": 0.0}


def test_rewards_without_that_name_count_alike() -> None:
    assert total({"a": 1.0, "b": 0.0}, None).reward == 0.5


def test_another_name_may_be_made_to_count() -> None:
    assert total({"reward": 0.0, "style": 1.0}, "style").reward == 1.0
    with pytest.raises(VerifierError, match="gave no reward 'speed'"):
        total({"reward": 0.0}, "speed")


def test_steps_count_alike_or_the_last_one_alone_and_a_step_not_reached_is_0() -> None:
    one, half = total({"reward": 1.0}, None), total({"reward": 0.5}, None)
    assert over_steps(["a", "b"], [one, half], "mean").reward == 0.75
    assert over_steps(["a", "b"], [one, half], "final").reward == 0.5
    assert over_steps(["a", "b"], [one], "mean").reward == 0.5
    assert over_steps(["a", "b"], [one], "final").reward == 0.0
