"""Filters, the best of a group, and pairs."""

from typing import Any

import pytest

from rollouthub import Rollout, Stop
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.export.export_format import find_export_format
from rollouthub.export.filters import Filters
from rollouthub.export.pairs import best_of, pairs
from rollouthub.export.recipe import Recipe
from rollouthub.rollout import Usage
from tests.export.kept import group
from tests.export.made import rollout, turn


def names(rollouts: list[Rollout]) -> list[int]:
    return [each.sample for each in rollouts]


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ({"passed": True}, "passed"),
        ({"max_reward": 0.0}, None),
        ({"min_reward": 0.25}, "reward"),
        ({"max_reward": -0.25}, "reward"),
        ({"stops": ("submitted",)}, "stop"),
        ({"stops": ("submitted", "finished")}, None),
        ({"min_turns": 3}, "turns"),
        ({"max_turns": 1}, "turns"),
        ({"max_tokens": 7}, None),
        ({"max_tokens": 6}, "tokens"),
        ({"trainable": True}, None),
    ],
)
def test_a_filter_that_rejects_is_named(wanted: dict[str, Any], name: str | None) -> None:
    rejected = Filters(**wanted).rejects(rollout(reward=0.0, stop=Stop.FINISHED))
    assert (None if rejected is None else rejected[0].value) == name


def test_tasks_are_picked_by_environment_and_by_patterns_of_their_id() -> None:
    record = rollout()
    assert Filters(tasks=("test/*", "train/g?")).rejects_task(record) is None
    assert Filters(tasks=("train/g",)).rejects_task(record) is not None
    assert Filters(environments=("math",)).rejects_task(record) is not None


def test_without_ids_the_engine_s_count_is_the_length_and_no_count_is_too_long() -> None:
    def of(**usage: int) -> Rollout:
        return rollout(turn(0, [], [], prompt_token_ids=None, output_token_ids=None, usage=Usage(**usage)))

    assert Filters(max_tokens=30).rejects(of(prompt_tokens=20, output_tokens=10)) is None
    assert Filters(max_tokens=29).rejects(of(prompt_tokens=20, output_tokens=10)) is not None
    rejected = Filters(max_tokens=10**9).rejects(of())
    assert rejected is not None
    assert rejected[1] == "its tokens were not counted"


def test_a_group_s_spread_is_its_range_or_its_deviation() -> None:
    assert Filters(min_range=1.0).rejects_group([0.0, 1.0, 0.5]) is None
    assert Filters(min_range=1.0).rejects_group([0.0, 0.9]) is not None
    assert Filters(min_deviation=0.5).rejects_group([0.0, 1.0]) is None
    assert Filters(min_deviation=0.71).rejects_group([0.0, 1.0]) is not None
    assert Filters(min_range=0.1).rejects_group([1.0]) is not None


def test_the_best_are_those_of_most_reward_and_of_equals_the_first_planned() -> None:
    samples = group(0.5, 1.0, 1.0, 0.0)
    assert names(best_of(samples, 1)) == [1]
    assert names(best_of(samples[::-1], 3)) == [1, 2, 0]


def test_pairs_are_the_best_with_the_worst_each_rollout_once() -> None:
    samples = group(0.25, 1.0, 0.0, 0.5, 0.5)
    assert [(a.sample, b.sample) for a, b in pairs(samples)] == [(1, 2)]
    assert [(a.sample, b.sample) for a, b in pairs(samples, most=9)] == [(1, 2), (3, 0)]
    assert [(a.sample, b.sample) for a, b in pairs(samples, most=9, margin=0.5)] == [(1, 2)]
    assert pairs(samples, margin=1.5) == []
    assert pairs(group(1.0, 1.0)) == []


def test_all_pairs_are_those_that_differ_widest_first_up_to_a_cap() -> None:
    samples = group(1.0, 0.0, 0.5, 0.0)
    every = [(0, 1), (0, 3), (0, 2), (2, 1), (2, 3)]
    assert [(a.sample, b.sample) for a, b in pairs(samples, "all")] == every
    assert [(a.sample, b.sample) for a, b in pairs(samples[::-1], "all", most=3)] == every[:3]


@pytest.mark.parametrize(
    "wanted",
    [{"min_reward": float("nan")}, {"min_reward": 1.0, "max_reward": 0.0}, {"min_turns": 2, "max_turns": 1}],
)
def test_a_filter_that_would_let_nothing_through_is_refused(wanted: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Filters(**wanted)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"format": "dpo", "best": 2}, "best = 2 means nothing to dpo"),
        ({"format": "sft", "incomplete": True}, "which takes best"),
        ({"format": "groups", "tokens": False}, "for words take sft"),
        ({"format": "groups", "mixed_models": True}, "token ids of two models"),
        ({"format": "dpo", "margin": float("inf")}, "margin = inf"),
        ({"format": "sft", "best": 0}, "1 is the least"),
    ],
)
def test_an_option_of_another_format_is_refused(wanted: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        find_export_format(Recipe(**wanted))


def test_a_wrong_name_is_met_with_the_right_one() -> None:
    with pytest.raises(UnknownNameError, match=r"named 'DPO'; did you mean 'dpo'\?"):
        find_export_format(Recipe(format="DPO"))
    with pytest.raises(UnknownNameError, match="did you mean 'groups'"):
        find_export_format(Recipe(format="group"))
    with pytest.raises(UnknownNameError, match="did you mean 'best_worst'"):
        Recipe(format="dpo", pairs="worst_best")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UnknownNameError, match="did you mean 'mean'"):
        Recipe(format="groups", advantage="means")  # pyright: ignore[reportArgumentType]
    with pytest.raises(UnknownNameError, match="did you mean 'finished'"):
        Filters(stops=("finishd",))
