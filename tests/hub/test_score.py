"""A score is a finite number or it is none."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rollouthub import Component, ModelCall, Score
from rollouthub.messages import assistant
from tests.hub.test_messages import reads_back
from tests.strategies import scores

no_numbers = st.sampled_from([math.nan, math.inf, -math.inf])


@given(scores())
def test_a_score_reads_back_from_json(score: Score) -> None:
    assert reads_back(score)


MAKERS: dict[str, Callable[[float], Any]] = {
    "reward": lambda value: Score(reward=value),
    "component value": lambda value: Component(value=value),
    "component weight": lambda value: Component(value=0, weight=value),
    "metric": lambda value: Score(reward=0, metrics={"m": value}),
    "turn reward": lambda value: Score(reward=0, turn_rewards={0: value}),
    "judge cost": lambda value: ModelCall(model="m", messages=(), response=assistant(""), cost=value),
}


@pytest.mark.parametrize("place", MAKERS)
@given(value=no_numbers)
def test_no_part_of_a_score_may_be_nan_or_infinite(place: str, value: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        MAKERS[place](value)


@pytest.mark.parametrize("text", ['{"reward": NaN}', '{"reward": "NaN"}', '{"reward": Infinity}', '{"reward": 1e999}'])
def test_a_score_from_json_may_not_be_nan_or_infinite(text: str) -> None:
    with pytest.raises(ValidationError, match="finite"):
        Score.model_validate_json(text)


def test_a_score_without_a_reward_is_refused() -> None:
    with pytest.raises(ValidationError, match="reward"):
        Score.model_validate({"passed": True})


def test_the_reward_must_be_the_weighted_sum_of_its_components() -> None:
    parts = {"right": Component(value=1, weight=0.75), "short": Component(value=0.5, weight=0.5)}
    assert Score(reward=1.0, components=parts).reward == 1.0
    with pytest.raises(
        ValidationError,
        match=r"right, short add up to 1, but reward is 0\.9; figures that are no parts of it belong into metrics",
    ):
        Score(reward=0.9, components=parts)


def test_components_that_overflow_are_refused() -> None:
    with pytest.raises(ValidationError, match="add up to inf"):
        Score(reward=1.0, components={"huge": Component(value=1e308, weight=10)})


def test_a_bare_number_is_a_component_of_weight_one() -> None:
    score = Score.model_validate({"reward": 1.5, "components": {"database": 1.0, "words": 0.5}})

    assert score.components == {"database": Component(value=1.0), "words": Component(value=0.5)}


def test_components_that_multiply_make_the_reward_by_their_product() -> None:
    parts = {"database": Component(value=1), "words": Component(value=0.5), "length": Component(value=210, weight=0)}
    assert Score(reward=0.5, components=parts, combine="product").reward == 0.5
    with pytest.raises(ValidationError, match=r"multiply to 0\.5, but reward is 1\.5"):
        Score(reward=1.5, components=parts, combine="product")
