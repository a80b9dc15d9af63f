import asyncio
import json
import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from rollouthub import Media, Message, Public, Rollout, Score, Text
from rollouthub.errors import ConfigError, ContextLimitError
from rollouthub.export import NotTrainable, Refusal, RefusalReason, TaskReference, TrainingRow, training_rows
from rollouthub.generation import Sampling
from rollouthub.rollout import Intervention
from rollouthub.score import Component
from rollouthub.trainers.verl import data_proto, learnable, loop_outputs, masked_output, prompt_rows
from rollouthub.trainers.verl.agent_loop_entry import loop_entry
from rollouthub.trainers.verl.batch_columns import columns
from rollouthub.trainers.verl.manager import balanced
from rollouthub.trainers.verl.row_workers import task_of
from rollouthub.trainers.verl.verl_engine import VerlEngine, sampling_of
from tests.export.made import forked, rollout, turn


def rows_of(*rollouts: Rollout) -> list[TrainingRow]:
    return [row for each in rollouts for row in training_rows(each)]


def test_prompts_are_padded_on_the_left_and_responses_on_the_right() -> None:
    short = rollout(turn(0, [7], [8, 9]), sample=1, reward=0.25)
    made = columns(rows_of(rollout(), short), pad_token_id=0)
    tensors = {name: array.tolist() for name, array in made.tensors.items()}
    assert tensors["prompts"] == [[1, 2, 3], [0, 0, 7]]
    assert tensors["responses"] == [[4, 5, 6, 7], [8, 9, 0, 0]]
    assert tensors["input_ids"] == [[1, 2, 3, 4, 5, 6, 7], [0, 0, 7, 8, 9, 0, 0]]
    assert tensors["attention_mask"] == [[1, 1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 0, 0]]
    assert tensors["position_ids"] == [[0, 1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 2, 2, 2]]
    assert tensors["response_mask"] == [[1, 1, 0, 1], [1, 1, 0, 0]]
    assert tensors["rollout_log_probs"] == [[-0.125, -0.25, 0.0, -0.125], [-0.125, -0.25, 0.0, 0.0]]
    assert tensors["rm_scores"] == [[0.0, 0.0, 0.0, 1.0], [0.0, 0.25, 0.0, 0.0]]
    assert made.others["uid"].tolist() == ["g1", "g1"]
    assert made.others["min_global_steps"].tolist() == [3, 3]


def test_turns_rewards_stand_on_their_own_last_tokens_and_add_up_to_the_whole() -> None:
    shaped = rollout(turn(0, [1], [4, 5], reward=0.5), turn(1, [1, 4, 5, 6], [7, 8]), reward=1.0)
    made = columns(rows_of(shaped), pad_token_id=0, rewards="turns")
    assert made.tensors["rm_scores"].tolist() == [[0.0, 0.5, 0.0, 0.0, 1.0]]


def test_components_have_one_set_of_keys_and_a_missing_one_is_no_zero() -> None:
    parts = Score(reward=1.0, components={"format": Component(value=1.0)})
    made = columns(rows_of(rollout(score=parts), rollout(sample=1)), pad_token_id=0)
    first, second = made.others["reward/format"].tolist()
    assert first == 1.0
    assert math.isnan(second)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"prompt_length": 2}, Refusal.TOO_LONG),
        ({"response_length": 3}, Refusal.TOO_LONG),
        ({"vocabulary": 7}, Refusal.OTHER_TOKENIZER),
    ],
)
def test_rows_that_do_not_fit_the_trainer_are_refused_by_name(settings: dict[str, Any], refusal: Refusal) -> None:
    with pytest.raises(NotTrainable) as caught:
        columns(rows_of(rollout()), pad_token_id=0, **settings)
    assert caught.value.refused.refusal is refusal


def test_rows_that_show_pictures_make_no_batch_of_ids_alone() -> None:
    picture = Message(role="tool", content=(Media(digest="sha256:0", mime_type="image/png"),), tool_call_id="1")
    with pytest.raises(ConfigError, match="shows pictures"):
        data_proto(rows_of(rollout(turn(0, [1, 2], [3], messages=(picture,)))), 0)


def test_rows_of_two_models_make_no_batch() -> None:
    with pytest.raises(NotTrainable, match="one tokenizer"):
        columns(rows_of(rollout(), rollout(sample=1, model="hosted_vllm/other")), pad_token_id=0)


def test_what_must_not_be_learnt_from_is_left_out_by_name_and_short_groups_whole() -> None:
    refused: list[RefusalReason] = []
    stream = [
        rollout(group="a"),
        rollout(group="a", sample=1, reward=0.0),
        rollout(group="b", reward=None),
        rollout(group="b", sample=1),
        rollout(group="c"),
        rollout(group="c", sample=1, told=(Intervention(at=1.0, seat="agent", text="left"),)),
    ]
    groups = list(learnable(iter(stream), group_size=2, on_refused=refused.append))
    assert [[row.rollout.rollout_id for row in group] for group in groups] == [["a-0", "a-1"]]
    assert [(each.rollout_id, each.refusal) for each in refused] == [
        ("b-0", Refusal.UNSCORED),
        ("b-1", Refusal.INCOMPLETE_GROUP),
        ("c-1", Refusal.HELPED),
        ("c-0", Refusal.INCOMPLETE_GROUP),
    ]


def test_a_forked_rollout_makes_several_outputs_of_one_reward() -> None:
    first, second = loop_outputs(forked(reward=0.5))
    assert (first["prompt_ids"], first["response_ids"]) == ([1, 2, 3], [4, 5, 6, 7, 8])
    assert (second["prompt_ids"], second["response_ids"]) == ([1, 2, 9], [7])
    assert first["response_mask"] == [1, 1, 0, 1, 1]
    assert first["reward_score"] == second["reward_score"] == 0.5
    assert first["extra_fields"]["extras"]["rows"] == 2
    assert first["extra_fields"].keys() == second["extra_fields"].keys()


def test_an_unscored_rollout_is_masked_whole_and_says_so() -> None:
    broken = rollout(reward=None)
    with pytest.raises(NotTrainable) as caught:
        loop_outputs(broken)
    masked = masked_output(broken, caught.value.refused, pad_token_id=0, components=("format",))
    assert sum(masked["response_mask"]) == 0
    assert masked["extra_fields"]["extras"]["refusal"] == "unscored"
    assert masked["extra_fields"]["reward_extra_info"]["is_scored"] == 0.0
    (scored,) = loop_outputs(rollout(), components=("format",))
    assert scored["extra_fields"].keys() == masked["extra_fields"].keys()
    assert scored["extra_fields"]["reward_extra_info"].keys() == masked["extra_fields"]["reward_extra_info"].keys()


def test_versions_that_nobody_told_are_none() -> None:
    (output,) = loop_outputs(rollout(policy_version_min=-1, policy_version_max=-1))
    assert output["extra_fields"]["min_global_steps"] is None


def test_an_unscored_member_gets_its_groups_mean_and_moves_no_baseline() -> None:
    def output(sample: int, reward: float | None) -> dict[str, Any]:
        record = rollout(sample=sample, reward=reward)
        if reward is None:
            return masked_output(record, RefusalReason(Refusal.UNSCORED, "broke"), pad_token_id=0)
        return loop_outputs(record)[0]

    outputs = [output(0, 1.0), output(1, None), output(2, 0.5), output(3, None)]
    balanced(outputs, ["a", "a", "a", "b"])
    assert [each["reward_score"] for each in outputs] == [1.0, 0.75, 0.5, 0.0]


def test_what_a_person_helped_to_earn_is_no_reward_of_the_policys() -> None:
    helped = rollout(reward=1.0, told=(Intervention(at=1.0, seat="agent", text="left"),))
    outputs = [
        masked_output(helped, RefusalReason(Refusal.HELPED, "told"), pad_token_id=0),
        *loop_outputs(rollout(sample=1, reward=0.5)),
    ]
    balanced(outputs, ["a", "a"])
    assert [each["reward_score"] for each in outputs] == [0.5, 0.5]


def test_a_data_set_names_tasks_and_holds_no_answers() -> None:
    tasks = [Public(id="train/0", prompt="What is 2 + 2?", system="Be brief.")]
    (row,) = prompt_rows(tasks, "arithmetic", "train")
    assert row["prompt"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is 2 + 2?"},
    ]
    assert task_of(row) == TaskReference("arithmetic", "train", "train/0")
    assert row["agent_name"] == "rollouthub"
    assert set(json.loads(row["reward_model"]["ground_truth"])) == {"environment", "split", "task_id"}


def test_no_row_for_verls_own_loop_loses_a_tasks_pictures() -> None:
    part = Media(digest="sha256:" + "1" * 64, mime_type="image/png")
    task = Public(id="a", prompt=(Message(role="user", content=(Text(text="Look:"), part)),))
    (row,) = prompt_rows([task], "gallery", "test")
    assert row["prompt"] == [{"role": "user", "content": "Look:"}]
    with pytest.raises(ConfigError, match="shows pictures, and a row for veRL's own loop has words alone"):
        list(prompt_rows([task], "gallery", "test", agent_name=None))


def test_a_row_that_names_no_task_is_refused() -> None:
    with pytest.raises(Exception, match="names no task of the hub"):
        task_of({"reward_model": {"style": "rule", "ground_truth": 4}})


def test_sampling_parameters_reach_the_engine_as_veRL_named_them() -> None:
    asked = {"temperature": 0.7, "top_p": 0.9, "top_k": -1, "repetition_penalty": 1.0, "logprobs": True}
    sampling = sampling_of(asked)
    assert (sampling.temperature, sampling.top_p) == (0.7, 0.9)
    assert sampling.extra == {"top_k": -1, "repetition_penalty": 1.0, "logprobs": True}


class Sampler:
    """veRL's client, as far as it is asked: three tokens at most, of which it tells versions."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        self.asked: list[dict[str, Any]] = []

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **shown: Any
    ) -> Any:
        assert not shown
        self.asked.append(sampling_params)
        ids = [7] * min(3, sampling_params["max_tokens"])
        return SimpleNamespace(token_ids=ids, log_probs=None, stop_reason="completed", extra_fields=self.fields)


async def test_a_row_grows_no_longer_than_veRL_takes_it() -> None:
    sampler = Sampler()
    engine = VerlEngine(sampler, asyncio.get_running_loop(), prompt_length=4, response_length=5)

    async def sampled(*prompt: int, session: str = "one") -> Any:
        return await engine.sample(prompt, Sampling(), session=session, media={})

    assert (await sampled(1, 2)).finish_reason == "stop"
    assert (await sampled(1, 2, 7, 7, 7, 9)).finish_reason == "length", "veRL says completed of an answer that was cut"
    assert [asked["max_tokens"] for asked in sampler.asked] == [5, 1]
    with pytest.raises(ContextLimitError, match="response_length"):
        await sampled(1, 2, 7, 7, 7, 9, 7)
    with pytest.raises(ContextLimitError, match="prompt_length"):
        await sampled(1, 2, 3, 4, 5, session="other")


async def test_the_oldest_version_of_an_answer_is_its_stamp_and_the_newest_is_known() -> None:
    sampler = Sampler(global_steps=9, min_global_steps=7, max_global_steps=9)
    engine = VerlEngine(sampler, asyncio.get_running_loop(), prompt_length=None, response_length=5)
    answer = await engine.sample([1], Sampling(), session="one", media={})
    assert answer.versions == 7
    assert (engine.newest("one"), engine.newest("one")) == (9, None)


def test_without_logprobs_there_are_none_and_no_zeros() -> None:
    bare = rollout(turn(0, [1], [2, 3], output_logprobs=None), trainable=False, trainable_reason="no logprobs")
    (output,) = loop_outputs(bare, need="tokens")
    assert output["response_logprobs"] is None
    with pytest.raises(NotTrainable, match="no_logprobs"):
        loop_outputs(bare)


def test_the_manager_finds_the_hubs_entry_among_agent_loops() -> None:
    entries: list[Mapping[str, Any]] = [
        {"name": "other", "_target_": "elsewhere.Loop"},
        {
            "name": "rollouthub",
            "_target_": "rollouthub.trainers.verl.HubAgentLoop",
            "run": {"environments": ["arithmetic"]},
        },
    ]
    assert loop_entry(entries) == {"run": {"environments": ["arithmetic"]}}
    with pytest.raises(Exception, match="_target_"):
        loop_entry(entries[:1])
