"""The learner's settings: variants, and combinations that are refused."""

from typing import Any

import pytest

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.trainers.learn import VARIANTS, LearnSettings


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_can_be_made(name: str) -> None:
    made = LearnSettings.variant(name, max_tokens=100, learning_rate=1e-5)
    assert made.learning_rate == 1e-5
    assert {key: getattr(made, key) for key in VARIANTS[name]} == VARIANTS[name]


def test_an_unknown_variant_is_met_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'dapo'"):
        LearnSettings.variant("dapoo")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"normalize": "constant"}, "needs max_tokens"),
        ({"overlong_tokens": 10}, "needs max_tokens"),
        ({"overlong_tokens": 10, "max_tokens": 9}, "more than max_tokens"),
        ({"clip_high": 0}, "clip_high"),
        ({"learning_rte": 1}, "did you mean 'learning_rate'"),
        ({"advantages": "median"}, "advantages"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        LearnSettings.variant("grpo", **settings)
