"""SkyRL: its generator's output, from records made by hand and from episodes played over an engine of ids."""

import json
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typing_extensions

from rollouthub import Public
from rollouthub.errors import ConfigError, SupplyError
from rollouthub.export import TaskReference
from rollouthub.generation import Sampling
from rollouthub.messages import user
from rollouthub.rollout import Intervention, Stop
from rollouthub.trainers import skyrl as ours
from rollouthub.trainers.skyrl.generator import Generation, wanted
from rollouthub.trainers.skyrl.skyrl_engine import sampling_of
from tests.export.made import forked, rollout, turn
from tests.models.tokens.chatml import ChatMl
from tests.trainers.speaker import Speaker


@dataclass(frozen=True)
class Id:
    """The fields of SkyRL's `TrajectoryID` that are read."""

    instance_id: str
    repetition_id: int

    def to_string(self) -> str:
        return f"{self.instance_id}_{self.repetition_id}"


@dataclass
class Client:
    """The one method of SkyRL's inference engine client that generators call."""

    speaker: Speaker = field(default_factory=Speaker)
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    finished: list[str] = field(default_factory=list[str])
    model_name: str = "tiny"
    weight_version: int = 4

    async def generate(self, input_batch: dict[str, Any], model: str | None = None) -> dict[str, Any]:
        self.asked.append(input_batch)
        said = self.speaker.speak(input_batch["prompt_token_ids"][0])
        return {
            "responses": ["not looked at"],
            "response_ids": [said.token_ids],
            "stop_reasons": ["stop"],
            "response_logprobs": [said.logprobs],
        }

    async def finish_session(self, session_id: str) -> None:
        self.finished.append(session_id)


def test_a_rollout_is_a_row_with_its_ids_masks_logprobs_and_reward() -> None:
    output = ours.generator_output([(Id("a", 0), rollout(reward=0.75))])
    assert output["prompt_token_ids"] == [[1, 2, 3]]
    assert output["response_ids"] == [[4, 5, 6, 7]]
    assert output["loss_masks"] == [[1, 1, 0, 1]]
    assert output["rollout_logprobs"] == [[-0.125, -0.25, 0.0, -0.125]]
    assert output["rewards"] == [0.75]
    assert output["stop_reasons"] == ["stop"]
    assert output["trajectory_ids"] == [Id("a", 0)]
    assert output["is_last_step"] is None


def test_a_forked_rollout_is_several_steps_and_its_verdict_the_last_ones() -> None:
    output = ours.generator_output([(Id("a", 0), forked()), (Id("a", 1), rollout())], ours.Shape(step_wise=True))
    assert output["response_ids"] == [[4, 5, 6, 7, 8], [7], [4, 5, 6, 7]]
    assert output["is_last_step"] == [False, True, True]
    assert output["trajectory_ids"] == [Id("a", 0), Id("a", 0), Id("a", 1)]
    assert output["rewards"] == [0.0, 1.0, 1.0]


def test_what_must_not_be_learnt_from_is_one_masked_row_that_leaves_its_groups_mean() -> None:
    text_only = turn(0, [1], [2], output_token_ids=None, token_source="none")
    played = [
        (Id("a", 0), rollout(reward=None)),
        (Id("a", 1), rollout(reward=1.0)),
        (Id("a", 2), rollout(reward=0.5)),
        (Id("b", 0), forked()),
        (Id("b", 1), rollout(told=(Intervention(at=0.0, seat="agent", text="seven"),))),
        (Id("b", 2), rollout(text_only)),
    ]
    output = ours.generator_output(played)
    assert [sum(mask) for mask in output["loss_masks"]] == [0, 3, 3, 0, 0, 0]
    assert output["rewards"] == [0.75, 1.0, 0.5, 0.0, 0.0, 0.0]
    assert output["stop_reasons"] == ["error", "stop", "stop", "error", "error", "error"]
    metrics = output["rollout_metrics"]
    assert metrics["rollouthub/masked"] == 4
    names = ("unscored", "forked", "helped", "text_only")
    assert [metrics[f"rollouthub/masked_{name}"] for name in names] == [1, 1, 1, 1]


def test_a_batch_without_anything_to_learn_from_is_refused_by_name() -> None:
    played = [(Id("a", 0), rollout(reward=None)), (Id("a", 1), rollout(reward=None))]
    with pytest.raises(SupplyError, match=r"none of 2 rollouts may be learnt from \(unscored: 2\)"):
        ours.generator_output(played)
    assert ours.generator_output(played, may_be_empty=True)["loss_masks"] == [[0], [0]]


def test_rewards_may_stand_at_the_tokens_that_earned_them() -> None:
    made = rollout(turn(0, [1, 2, 3], [4, 5], reward=0.25), turn(1, [1, 2, 3, 4, 5, 6], [7]), reward=0.5)
    output = ours.generator_output([(Id("a", 0), made)], ours.Shape(token_rewards=True))
    assert output["rewards"] == [[0.0, 0.25, 0.0, 0.5]]


def test_what_a_limit_cut_short_is_masked_where_that_is_asked_for() -> None:
    played = [(Id("a", 0), rollout(stop=Stop.TURN_LIMIT)), (Id("a", 1), rollout())]
    output = ours.generator_output(played, ours.Shape(mask_truncated=True))
    assert output["loss_masks"] == [[0, 0, 0, 0], [1, 1, 0, 1]]
    assert output["stop_reasons"] == ["length", "stop"]


def test_prompts_name_tasks_and_carry_nothing_of_their_answers(tmp_path: Path) -> None:
    tasks = [Public(id="1", prompt="What is 1 + 1?", system="Be brief."), Public(id="2", prompt=(user("x"),))]
    assert ours.write_prompts(tmp_path / "train.jsonl", tasks, "arithmetic", "train") == 2
    first, second = map(json.loads, (tmp_path / "train.jsonl").read_text().splitlines())
    assert first == {
        "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is 1 + 1?"}],
        "env_class": "rollouthub",
        "rollouthub": str(TaskReference("arithmetic", "train", "1")),
    }
    assert second["prompt"] == [{"role": "user", "content": "x"}]


def test_a_row_that_names_no_task_is_refused() -> None:
    with pytest.raises(ConfigError, match="no column 'rollouthub'"):
        wanted([{"reward_spec": {}}], [Id("a", 0)], None)


def test_sampling_goes_on_in_the_engines_own_words() -> None:
    params = {"temperature": 0.5, "max_tokens": 9, "top_k": -1, "stop": ["x"], "logprobs": 1}
    assert sampling_of(params) == Sampling(
        temperature=0.5, max_tokens=9, stop=("x",), extra={"top_k": -1, "logprobs": 1}
    )
    assert sampling_of({"stop": None}) == Sampling()


def batch(count: int = 2, samples: int = 2, **changes: Any) -> dict[str, Any]:
    """A `GeneratorInput` of the first sums."""
    names = [(task, sample) for task in range(count) for sample in range(samples)]
    return {
        "prompts": [[{"role": "user", "content": "?"}] for _ in names],
        "env_classes": ["rollouthub"] * len(names),
        "env_extras": [{"rollouthub": str(TaskReference("arithmetic", "train", f"train/{task}"))} for task, _ in names],
        "sampling_params": {"temperature": 0.5, "max_tokens": 400, "top_k": -1},
        "trajectory_ids": [Id(str(task), sample) for task, sample in names],
        "batch_metadata": None,
    } | changes


def playing(folder: Path) -> Mapping[str, Any]:
    """The settings of a run."""
    return {
        "environments": ["arithmetic"],
        "set": {"terms": 2, "digits": 2},
        "training": {"directory": str(folder)},
        "track": [],
    }


async def check_batch(generator: Any, client: Client, asked: Any) -> dict[str, Any]:
    """Play a batch, and compare each row with what the policy said."""
    output = await generator.generate(asked)
    known = client.speaker.rows()
    for place, (prompt, response) in enumerate(zip(output["prompt_token_ids"], output["response_ids"], strict=True)):
        mask, logprobs = known[*prompt, *response]
        assert output["loss_masks"][place] == mask[len(prompt) :]
        assert output["rollout_logprobs"][place] == logprobs[len(prompt) :]
    assert sorted(output["rewards"]) == [0.0, 0.0, 1.0, 1.0]
    return output


async def test_episodes_are_played_over_the_trainers_own_engine(tmp_path: Path) -> None:
    client = Client()
    generator = Generation(client, ChatMl(), playing(tmp_path))
    try:
        await check_batch(generator, client, batch())
        again = await generator.generate(batch(1))
    finally:
        await generator.close()
    assert len(again["response_ids"]) == 2
    assert len(client.speaker.said) == 12  # the same rows once more are played, not read from the store
    assert client.asked[0]["cache_salt"] == "4"
    params = client.asked[0]["sampling_params"]
    assert (params["temperature"], params["top_k"], params["logprobs"]) == (0.5, -1, 1)
    assert len(set(client.finished)) == 6


@pytest.fixture
def skyrl(system: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """SkyRL's modules; before Python 3.12, pydantic refuses the `TypedDict` it takes."""
    if sys.version_info < (3, 12):
        monkeypatch.setattr(typing, "TypedDict", typing_extensions.TypedDict)
    system("skyrl.train.generators.base")
    return system


class Lengths:
    """What SkyRL's data set asks of a tokenizer, in processes of its own."""

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> list[int]:
        return [0] * len(conversation)


@pytest.mark.live
@pytest.mark.parametrize("step_wise", [False, True])
def test_skyrl_takes_what_is_made_of_records(skyrl: Callable[[str], Any], step_wise: bool) -> None:
    base, utils = skyrl("skyrl.train.generators.base"), skyrl("skyrl.train.generators.utils")
    checks = skyrl("skyrl.train.utils.trainer_utils")
    ids = [base.TrajectoryID("a", sample) for sample in range(3)]
    made = [rollout(reward=None), rollout(reward=1.0), forked(reward=0.5)]
    output = ours.generator_output(list(zip(ids, made, strict=True)), ours.Shape(step_wise=step_wise))
    checks.validate_generator_output(3, output, step_wise=step_wise)
    assert set(output) <= set(base.GeneratorOutput.__annotations__)
    others = [base.TrajectoryID("b", sample) for sample in range(3)]
    other = ours.generator_output(list(zip(others, made, strict=True)), ours.Shape(step_wise=step_wise))
    joined = utils.concatenate_generator_outputs([output, other], step_wise=step_wise)
    assert joined["response_ids"] == output["response_ids"] * 2
    assert joined["rollout_logprobs"] == output["rollout_logprobs"] * 2
    if not step_wise:
        figures = utils.get_metrics_from_generator_output(output, ["a"] * 3)
        assert figures["avg_score"] == pytest.approx(1.0)  # the masked ones count as the mean of what was scored
    # A group whose living members agree has nothing to teach, whatever is masked beside them.
    assert checks.zero_variance_filter([1.0, 1.0, 1.0], ["a"] * 3, [[0], [1], [1]]) == []


@pytest.mark.live
async def test_skyrls_own_data_set_and_batches_come_back_as_its_output(
    skyrl: Callable[[str], Any], tmp_path: Path
) -> None:
    base, utils = skyrl("skyrl.train.generators.base"), skyrl("skyrl.train.generators.utils")
    checks, dataset = skyrl("skyrl.train.utils.trainer_utils"), skyrl("skyrl.train.dataset.dataset")
    tasks = [Public(id=f"train/{number}", prompt=f"What is {number}?") for number in range(2)]
    ours.write_prompts(tmp_path / "train.jsonl", tasks, "arithmetic", "train")

    rows = dataset.PromptDataset(str(tmp_path / "train.jsonl"), Lengths(), max_prompt_length=64, num_workers=1)
    prompts = rows.collate_fn([rows[0], rows[1]])
    asked, uids = utils.prepare_generator_input(prompts, 2, {"max_tokens": 400}, "none", "train", 7)
    client = Client()
    generator = ours.HubGenerator(client, ChatMl(), playing(tmp_path))
    assert isinstance(generator, base.GeneratorInterface)
    try:
        output = await check_batch(generator, client, asked)
    finally:
        await generator.close()
    checks.validate_generator_output(len(asked["prompts"]), output)
    assert output["trajectory_ids"] == asked["trajectory_ids"]
    assert uids == ["0", "0", "1", "1"]
    assert utils.get_metrics_from_generator_output(output, uids)["avg_score"] == 0.5
