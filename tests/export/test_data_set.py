"""What a data set leaves out: by name, with counts, and never without a word; damage ends nobody else's export."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Rollout
from rollouthub.export.data_set import MixedModels
from rollouthub.export.filters import Filters
from rollouthub.rollout import Intervention
from rollouthub.store import open_run
from rollouthub.values import Float32s, Int32s
from tests.export.kept import damage, group, keep, made
from tests.export.made import rollout, turn


def broken_arrays() -> list[Rollout]:
    """Records whose arrays contradict each other, a group each."""
    first: Sequence[dict[str, Any]] = (
        {"output_logprobs": Float32s([-0.5])},
        {"output_logprobs": Float32s([float("nan"), -0.5])},
        {"output_logprobs": Float32s([1.0, -0.5])},
        {"output_mask": Int32s([1])},
        {"policy_versions": Int32s([1, 2, 3])},
        {"output_token_ids": Int32s([]), "output_logprobs": Float32s([])},
        {"output_token_ids": Int32s([4, -5])},
    )
    return [rollout(turn(0, [1], [4, 5], **change), group=f"g{place}") for place, change in enumerate(first)]


def test_every_record_that_must_not_be_learnt_from_is_left_out_by_name(tmp_path: Path) -> None:
    text = {"prompt_token_ids": None, "output_token_ids": None, "output_logprobs": None, "token_source": "none"}
    told = (Intervention(at=0.1, seat="agent", text="try 7"),)
    run = keep(
        tmp_path / "run",
        rollout(group="good"),
        rollout(group="a", reward=None),
        rollout(group="b", told=told),
        rollout(group="c", turns=()),
        rollout(group="d", trainable=False, trainable_reason="played the reference solution"),
        rollout(turn(0, [1], [2], **text), group="e"),
        rollout(turn(0, [1], [2], token_source="none"), group="f"),
        rollout(turn(0, [1], [2], output_logprobs=None), group="g"),
        rollout(turn(0, [1], [2], model="other/model"), group="h"),
        rollout(group="i", trainable=False, trainable_reason="said so"),
    )
    always = {"unscored": 1, "helped": 1, "no_turns": 1, "privileged": 1}
    found = made(run, format="groups")
    assert [row["rollout_id"] for row in found.rows] == ["good-0"]
    assert found.left_out == {**always, "text_only": 2, "no_logprobs": 1, "other_tokenizer": 1, "filtered": 1}
    for form in ("sft", "dpo", "kto"):
        assert made(run, format=form, tokens=True).left_out.items() >= {
            **always, "text_only": 2, "other_tokenizer": 1
        }.items()  # fmt: skip
    for form in ("sft", "kto", "atif"):
        assert made(run, format=form).left_out == always


def test_arrays_that_contradict_each_other_are_never_trained_on(tmp_path: Path) -> None:
    run = keep(tmp_path / "run", *broken_arrays())
    found = made(run, format="groups")
    assert (found.rows, found.left_out) == ([], {"no_logprobs": 1, "corrupt": 6})
    assert made(run, tokens=True).left_out == {"corrupt": 5}


DAMAGES = {
    "no JSON": "UPDATE rollouts SET body = 'x' WHERE id = 1",
    "no body": "UPDATE rollouts SET body = CAST(x'ff' AS TEXT) WHERE id = 1",
    "another's body": "UPDATE rollouts SET body = (SELECT body FROM rollouts WHERE id = 2) WHERE id = 1",
    "another reward": "UPDATE rollouts SET reward = 9.0 WHERE id = 1",
    "a turn is gone": "DELETE FROM turns WHERE id = 1 << 20",
    "the last turn is gone": "DELETE FROM turns WHERE id = (1 << 20) + 1",
    "half an id": "UPDATE turns SET output_token_ids = x'010203' WHERE id = 1 << 20",
    "ids are cut off": "UPDATE turns SET output_token_ids = x'01000000' WHERE id = 1 << 20",
    "a turn is no JSON": "UPDATE turns SET body = '{' WHERE id = 1 << 20",
    "a prefix of nobody": "UPDATE turns SET prefix_turn = 7 WHERE id = (1 << 20) + 1",
    "a prefix too long": "UPDATE turns SET prefix_length = 99 WHERE id = (1 << 20) + 1",
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_record_is_told_and_the_others_are_exported(tmp_path: Path, name: str) -> None:
    run = keep(tmp_path / "run", *group(1.0, 0.0), *group(0.5, 0.25, name="g2"), repeats=2)
    damage(run, DAMAGES[name])
    for form, rest in (("sft", ["g1-1", "g2-0", "g2-1"]), ("groups", ["g2-0", "g2-1"])):
        found = made(run, format=form)
        assert [row["rollout_id"] for row in found.rows] == rest
        assert [record.name for record in found.progress.broken] == ["g1-0"]
        assert found.left_out["corrupt"] == 1
    assert found.left_out == {"corrupt": 1, "incomplete_group": 1}


def test_turns_that_follow_nobody_are_corrupt(tmp_path: Path) -> None:
    run = keep(tmp_path / "run", rollout(turn(0, [1], [2]), turn(1, [1, 2], [3], parent=5)))
    assert made(run).left_out == {"corrupt": 1}


def test_tools_that_the_run_has_lost_are_not_left_away_silently(tmp_path: Path) -> None:
    run = keep(tmp_path / "run", rollout(tools_digest="sha256:gone"))
    for form in ("sft", "kto", "atif"):
        assert made(run, format=form).left_out == {"corrupt": 1}


def test_a_group_with_members_missing_has_no_advantages_unless_asked(tmp_path: Path) -> None:
    run = keep(tmp_path / "run", *group(1.0, 0.0, None), *group(1.0, 0.0, name="g2"), repeats=3)
    found = made(run, format="groups")
    assert (found.rows, found.left_out) == ([], {"unscored": 1, "incomplete_group": 4})
    assert "2 of the 3" in found.progress.left_out.examples["incomplete_group"]
    rows = made(run, format="groups", incomplete=True, advantage="mean").rows
    assert [row["advantage"] for row in rows] == [0.5, -0.5, 0.5, -0.5]


def test_groups_that_teach_nothing_are_left_out_by_their_spread(tmp_path: Path) -> None:
    run = keep(tmp_path / "run", *group(1.0, 1.0), *group(1.0, 0.0, name="g2"), repeats=2)
    found = made(run, format="groups", filters=Filters(min_range=0.1))
    assert [row["group_id"] for row in found.rows] == ["g2", "g2"]
    assert found.left_out == {"range": 2}


def test_runs_of_two_models_make_no_set_of_tokens_and_one_of_words_only_when_asked(tmp_path: Path) -> None:
    one = keep(tmp_path / "one", *group(1.0, 0.0), repeats=2)
    other = keep(tmp_path / "other", *group(1.0, 0.0, model="hosted_vllm/big"), repeats=2)
    for recipe in ({"format": "groups"}, {"tokens": True}, {"format": "dpo"}, {}):
        with pytest.raises(MixedModels, match=r"tiny' and 'hosted_vllm/big' \(other_tokenizer\)"):
            made(one, other, **recipe)
    assert len(made(one, other, mixed_models=True).rows) == 4
    assert len(made(one, one, format="groups").rows) == 4  # of one model, runs add up


def test_a_task_s_samples_in_two_runs_are_two_groups(tmp_path: Path) -> None:
    one = keep(tmp_path / "one", rollout(reward=1.0))
    other = keep(tmp_path / "other", rollout(reward=0.0))
    assert made(one, other, format="dpo").left_out == {"no_pair": 2}
    assert [row["advantage"] for row in made(one, other, format="groups").rows] == [0.0, 0.0]


def test_a_task_s_samples_come_together_however_they_were_committed(tmp_path: Path) -> None:
    one, two = group(1.0, 0.0), group(0.5, 0.25, name="g2")
    run = keep(tmp_path / "run", two[1], one[1], one[0], two[0], repeats=2)
    with open_run(run) as reader:
        groups = list(reader.groups())
    assert groups == [two, one]  # tasks by their first commit, samples in order, records whole


def test_an_attempt_that_another_took_the_place_of_is_told_only_when_asked(tmp_path: Path) -> None:
    broken = rollout(reward=None, attempt=0)
    run = keep(tmp_path / "run", broken, rollout(attempt=1))
    assert [row["attempt"] for row in made(run, format="atif").rows] == [1]
    rows = made(run, format="atif", all_attempts=True, untrainable=True).rows
    assert [(row["attempt"], row["outcome"]) for row in rows] == [(0, "sandbox_failed"), (1, "scored")]
