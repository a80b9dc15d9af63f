"""NeMo-RL: results whose token ids are contiguous, masked where nothing may be learnt, and no reward made up."""

import json
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Message, Public, Rollout, Score, ToolRequest
from rollouthub.errors import ConfigError, SupplyError, VerifierError
from rollouthub.export import NotTrainable, Refusal, TaskReference, training_rows
from rollouthub.score import Component
from rollouthub.trainers.blocking_scorer import blocking_scorer
from rollouthub.trainers.nemo_rl import gym_result, gym_rows, write_gym_data, write_gym_results, write_prompts
from rollouthub.trainers.nemo_rl.row_player import Rows
from rollouthub.trainers.nemo_rl.verdict_environment import judge
from rollouthub.trainers.stream import SampleRequest
from rollouthub.values import Float32s, Int32s
from tests.export.made import forked, rollout, turn

FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
TASK = TaskReference("arithmetic", "train", "train/g1")


def learnt_of(result: dict[str, Any]) -> tuple[list[int], list[int], list[float]]:
    """Ids, mask and log-probabilities, put together as NeMo-RL does."""
    ids: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    for item in result["response"]["output"]:
        if not item.get("generation_token_ids"):
            continue
        prompt, said, sampled = (item[name] for name in FIELDS)
        assert prompt[: len(ids)] == ids, "contiguous"
        assert len(prompt) > len(ids), "a message without tokens has no type"
        gap = len(prompt) - len(ids)
        ids = [*prompt, *said]
        mask = [*mask, *[0] * gap, *[1] * len(said)]
        logprobs = [*logprobs, *[0.0] * gap, *sampled]
    return ids, mask, logprobs


def with_tools() -> Rollout:
    """A call, its result, and an answer."""
    call = ToolRequest(id="c", name="calculate", arguments='{"expression": "1+1"}')
    said = Message(role="assistant", content="", reasoning="hm", tool_requests=(call,))
    return rollout(
        turn(0, [1, 2, 3], [4, 5], response=said),
        turn(1, [1, 2, 3, 4, 5, 6], [7]),
        score=Score(reward=0.75, components={"right": Component(value=1.0, weight=0.5), "neat": Component(value=0.25)}),
    )


def test_a_result_gives_back_the_very_tokens_masks_and_logprobs() -> None:
    played = with_tools()
    result, segment = gym_result(played, task_index=3, rollout_index=1), training_rows(played)[0].segment
    assert learnt_of(result) == (list(segment.token_ids), list(segment.loss_mask), list(segment.logprobs))
    assert result["reward"] == 0.75
    assert result["reward_components"] == {"right": 0.5, "neat": 0.25}
    assert (result["_ng_task_index"], result["_ng_rollout_index"]) == (3, 1)
    kinds = [item["type"] for item in result["response"]["output"]]
    assert kinds == ["reasoning", "function_call", "function_call_output", "message"]
    assert result["responses_create_params"]["input"][0]["role"] == "user"


@pytest.mark.parametrize(
    ("turns", "mask"),
    [
        ([turn(0, [1, 2], [3, 4], output_mask=Int32s([0, 0])), turn(1, [1, 2, 3, 4, 5], [6])], [0, 0, 0, 0, 0, 1]),
        ([turn(0, [1, 2], [3, 4, 5, 6], output_mask=Int32s([1, 0, 0, 1]))], [0, 0, 1, 0, 0, 1]),
        ([turn(0, [1, 2], [3, 4]), turn(1, [1, 2, 3, 4], [5])], [0, 0, 1, 1, 1]),
    ],
    ids=["a masked turn", "holes in a turn", "two turns with nothing between"],
)
def test_what_is_masked_is_prompt_and_what_touches_is_one_message(turns: Sequence[Any], mask: list[int]) -> None:
    ids, found, _ = learnt_of(gym_result(rollout(*turns)))
    assert (found, ids) == (mask, list(range(1, len(mask) + 1)))


@pytest.mark.parametrize(
    ("broken", "refusal"),
    [
        (forked(), Refusal.FORKED),
        (rollout(reward=None), Refusal.UNSCORED),
        (rollout(turn(0, [1], [2], prompt_token_ids=None)), Refusal.TEXT_ONLY),
        (rollout(turn(0, [1], [2], output_logprobs=Float32s([float("nan")]))), Refusal.CORRUPT),
        (rollout(turn(0, [1], [2], output_mask=Int32s([0]))), Refusal.FILTERED),
    ],
    ids=lambda value: value.value if isinstance(value, Refusal) else "",
)
def test_what_must_not_be_learnt_from_makes_no_result(broken: Rollout, refusal: Refusal) -> None:
    with pytest.raises(NotTrainable) as caught:
        gym_result(broken)
    assert caught.value.refused.refusal is refusal


class Playing:
    """Hands out these rollouts, one for each sample that is asked for."""

    def __init__(self, *rollouts: Rollout) -> None:
        self._left, self.wanted = list(rollouts), list[SampleRequest]()

    def begin(self, wanted: SampleRequest) -> Future[Rollout]:
        self.wanted.append(wanted)
        future: Future[Rollout] = Future()
        future.set_result(self._left.pop(0))
        return future


def rows_of(count: int, task: TaskReference = TASK) -> list[dict[str, Any]]:
    params = {"input": [{"role": "user", "content": "?"}], "temperature": 0.5, "top_p": 1.0, "max_output_tokens": 9}
    return [
        {
            "responses_create_params": params,
            "agent_ref": {"name": "rollouthub"},
            "rollouthub": str(task),
            "_rowidx": place,
        }
        for place in range(count)
    ]


async def results_of(playing: Playing, count: int, replays: int) -> tuple[dict[int, Any], Rows]:
    rows = Rows(rows_of(count), playing.begin, replays)
    return {place: result async for place, result in rows.results()}, rows


async def test_every_row_has_a_result_and_members_of_a_group_are_samples_of_one() -> None:
    playing = Playing(*(rollout(reward=reward) for reward in (1.0, 0.0, 0.5)))
    results, _ = await results_of(playing, 3, 0)
    assert sorted(result["reward"] for result in results.values()) == [0.0, 0.5, 1.0]
    assert {wanted.sample for wanted in playing.wanted} == {0, 1, 2}
    assert len({wanted.group for wanted in playing.wanted}) == 1
    sampling = playing.wanted[0].sampling
    assert sampling is not None
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (0.5, 1.0, 9)
    assert results[0]["responses_create_params"]["temperature"] == 0.5
    assert results[2]["_rowidx"] == 2


async def test_what_must_not_be_learnt_from_is_played_again_as_another_sample() -> None:
    playing = Playing(rollout(reward=None), rollout(reward=0.5), rollout(reward=1.0))
    results, rows = await results_of(playing, 2, 1)
    assert sorted(result["reward"] for result in results.values()) == [0.5, 1.0]
    assert [wanted.sample for wanted in playing.wanted] == [0, 1, 2]
    assert dict(rows.counts) == {"unscored": 1, "replayed": 1}


async def test_what_cannot_be_learnt_from_is_masked_and_leaves_its_groups_mean_as_it_was() -> None:
    playing = Playing(rollout(reward=1.0), forked(reward=0.0), rollout(reward=0.5), rollout(reward=None))
    results, rows = await results_of(playing, 4, 0)
    masked = {place: result for place, result in results.items() if "instance_config" in result}
    assert {result["refused"] for result in masked.values()} == {"forked", "unscored"}
    for result in masked.values():
        assert result["instance_config"] == {"mask_sample": True}
        assert result["reward"] == 0.75
        assert learnt_of(result) == ([1, 2, 3, 4], [0, 0, 0, 1], [0.0] * 4)
        assert "reward_components" not in result
    assert rows.counts["masked"] == 2


async def test_a_group_without_any_token_ids_is_an_error_not_a_batch() -> None:
    broken = rollout(turn(0, [1], [2], prompt_token_ids=None))
    with pytest.raises(SupplyError, match="token ids"):
        await results_of(Playing(broken, broken), 2, 0)
    with pytest.raises(ConfigError, match="rollouthub"):
        Rows([{"responses_create_params": {}, "agent_ref": {}}], Playing().begin, 0)


def test_the_environment_scores_message_logs_and_makes_up_no_reward() -> None:
    with blocking_scorer(["arithmetic"]) as scorer:
        task = scorer.tasks()[0]
        named = {"ground_truth": str(TaskReference("arithmetic", "test", task.id))}
        wrong = [{"role": "user", "content": str(task.prompt)}, {"role": "assistant", "content": "I give up"}]
        assert judge(scorer, [wrong], [named]) == [0.0]
        gone = {"rollouthub": str(TaskReference("arithmetic", "test", "test/none"))}
        with pytest.raises(VerifierError, match="1 of 2 answers are unscored"):
            judge(scorer, [wrong, wrong], [named, gone])
        for metadata in (None, {}, {"ground_truth": "4"}):
            with pytest.raises(ConfigError):
                judge(scorer, [wrong], [metadata])


def test_data_sets_name_tasks_and_hold_nothing_secret(tmp_path: Path) -> None:
    tasks = [Public(id=f"test/{number}", prompt=f"Say {number}", system="Be brief.") for number in range(3)]
    assert write_gym_data(tmp_path / "train.jsonl", tasks, "echo", "test") == 3
    assert write_prompts(tmp_path / "prompts.jsonl", tasks, "echo", "test") == 3
    row = json.loads((tmp_path / "train.jsonl").read_text().splitlines()[1])
    assert [message["role"] for message in row["responses_create_params"]["input"]] == ["system", "user"]
    assert TaskReference.parse(row["rollouthub"]) == TaskReference("echo", "test", "test/1")
    assert set(row) == {"responses_create_params", "agent_ref", "rollouthub"}
    prompt = json.loads((tmp_path / "prompts.jsonl").read_text().splitlines()[2])
    assert (prompt["input"], TaskReference.parse(prompt["output"]).task_id) == ("Be brief.\n\nSay 2", "test/2")


def test_results_are_joined_to_their_inputs_by_two_indices(tmp_path: Path) -> None:
    played = [rollout(sample=0), rollout(sample=1), rollout(reward=None, sample=2), rollout(group="g2"), forked()]
    exported = write_gym_results(tmp_path / "out.jsonl", played)
    assert (exported.written, exported.refused) == (3, {"unscored": 1, "forked": 1})
    results = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    inputs = [json.loads(line) for line in (tmp_path / "out_materialized_inputs.jsonl").read_text().splitlines()]
    places = [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in results]
    assert places == [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in inputs] == [(0, 0), (0, 1), (1, 0)]
    assert all("reward" not in row and "response" not in row for row in inputs)
    assert next(gym_rows([], "echo", "test"), None) is None
