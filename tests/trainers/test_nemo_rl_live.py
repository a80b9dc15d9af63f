"""NeMo-RL's own code over the hub's results: post-processor, batches and environment loop, and NeMo Gym's reader."""

import json
import sys
import typing
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.to_thread
import pytest
import typing_extensions

from rollouthub.export import TaskReference, training_rows
from rollouthub.models.mock.mock_server import serve_mock
from rollouthub.trainers import nemo_rl as ours
from rollouthub.trainers.blocking_scorer import blocking_scorer
from rollouthub.trainers.nemo_rl import gym_result, gym_rows, write_gym_results
from rollouthub.trainers.nemo_rl.gym import gym_class
from rollouthub.trainers.nemo_rl.verdict_environment import environment_class
from tests.export.made import rollout, turn
from tests.trainers.absent import Absent

pytestmark = pytest.mark.live


class Tokenizer:
    """Decodes for logs, which is all that the post-processor asks."""

    def batch_decode(self, batches: Any) -> list[str]:
        return [str(list(ids)) for ids in batches]


@pytest.fixture
def nemo(checkout: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """NeMo-RL's modules, from a checkout and what they need (`pyzmq`, `nvidia-ml-py` …) in a folder beside it."""
    checkout("nemo-rl")
    # Python 3.11, where pydantic wants the TypedDict of the package; NeMo-RL itself wants 3.13.
    monkeypatch.setattr(typing, "TypedDict", typing_extensions.TypedDict)
    for name in ("mlflow", "swanlab", "wandb"):  # loggers, which nothing here logs to
        if name not in sys.modules:
            absent = Absent(name)
            absent.__spec__ = ModuleSpec(name, None)
            monkeypatch.setitem(sys.modules, name, absent)

    def imported(module: str) -> Any:
        try:
            return import_module(module)
        except ImportError as error:
            pytest.skip(f"{module} cannot be imported ({error})")

    return imported


def post_processed(nemo: Callable[[str], Any], result: dict[str, Any]) -> dict[str, Any]:
    """What NeMo-RL makes of a result, by its own method."""
    module = nemo("nemo_rl.environments.nemo_gym")
    process = module.NemoGym.__ray_metadata__.modified_class._postprocess_nemo_gym_to_nemo_rl_result
    return process(SimpleNamespace(cfg={}), {"responses_create_params": {}}, result, Tokenizer())


def two_turns(**changes: Any) -> Any:
    return rollout(turn(0, [1, 2, 3], [4, 5]), turn(1, [1, 2, 3, 4, 5, 6], [7, 8]), **changes)


def test_its_post_processor_and_batches_give_back_the_very_tokens(nemo: Callable[[str], Any]) -> None:
    torch = nemo("torch")
    interfaces, payload = nemo("nemo_rl.experience.interfaces"), nemo("nemo_rl.experience.payload")
    played = [two_turns(reward=1.0), two_turns(reward=0.25, sample=1)]
    completions: list[Any] = []
    for each in played:
        learnt = post_processed(nemo, gym_result(each))
        assert [message["role"] for message in learnt["message_log"]] == ["user", "assistant"] * 2
        assert all(message["token_ids"].dtype == torch.int64 for message in learnt["message_log"])
        completions.append(
            interfaces.Completion(learnt["message_log"], learnt["full_result"], False, learnt["full_result"]["reward"])
        )
    record = interfaces.PromptGroupRecord(0, completions[0].message_log[:1], None, {}, completions, {})
    batch = payload.record_to_train_batch(record, pad_value_dict={"token_ids": 0})
    for place, each in enumerate(played):
        segment = training_rows(each)[0].segment
        assert batch["input_ids"][place].tolist() == list(segment.token_ids)
        assert batch["token_mask"][place].tolist() == list(segment.loss_mask)
        assert batch["generation_logprobs"][place].tolist() == list(segment.logprobs)
    assert batch["total_reward"].tolist() == [1.0, 0.25]
    assert batch["prompt_ids_for_adv"].tolist() == [[1, 2, 3]] * 2


async def test_a_row_in_place_of_a_broken_rollout_is_masked_by_its_own_code(nemo: Callable[[str], Any]) -> None:
    from tests.trainers.test_nemo_rl import Playing, results_of

    rollouts = nemo("nemo_rl.experience.rollouts")
    found, _ = await results_of(Playing(two_turns(), two_turns(reward=None, sample=1)), 2, 0)
    learnt = [post_processed(nemo, found[place]) for place in sorted(found)]
    flags = rollouts._extract_mask_sample_flags(learnt).tolist()
    assert sorted(flags) == [False, True]
    prompts = [each["input_message_log"][0]["token_ids"].tolist() for each in learnt]
    assert prompts == [[1, 2, 3]] * 2
    assert [each["full_result"]["reward"] for each in learnt] == [1.0, 1.0]


def test_its_reward_components_add_up(nemo: Callable[[str], Any]) -> None:
    from tests.trainers.test_nemo_rl import with_tools

    module, result = nemo("nemo_rl.environments.nemo_gym"), gym_result(with_tools())
    module.validate_reward_components_match_scalar([result])
    assert module.extract_reward_components(result) == {"right": 0.5, "neat": 0.25}


async def test_its_actors_class_plays_rows_with_the_hub(
    nemo: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nemo("nemo_rl.environments.nemo_gym")
    monkeypatch.chdir(tmp_path)
    with blocking_scorer(["arithmetic"], limit=2) as scorer:
        rows = list(gym_rows(scorer.tasks(), "arithmetic", "test")) * 2
    is_up, ports = anyio.Event(), list[int]()
    found: dict[int, Any] = {}

    def ready(port: int) -> None:
        ports.append(port)
        is_up.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(serve_mock, "mock/solver", "127.0.0.1", 0, ready=ready))
        await is_up.wait()
        config = {
            "model_name": "mock/solver",
            "base_urls": [f"http://127.0.0.1:{ports[0]}/v1"],
            "initial_global_config_dict": {"rollouthub": {"environments": ["arithmetic"]}},
        }
        gym = gym_class()(config)
        with pytest.raises(RuntimeError, match="_spinup"):
            gym.health_check()
        await anyio.to_thread.run_sync(gym._spinup)
        gym.health_check()
        gym.set_tokenizer(Tokenizer())
        asked = [{**row, "_rowidx": place} for place, row in enumerate(rows)]
        async for place, result, metrics in gym.run_rollouts(asked, "timing"):
            found[place] = result, metrics
        await anyio.to_thread.run_sync(gym.shutdown)
        tasks.cancel_scope.cancel()
    assert sorted(found) == [0, 1, 2, 3]
    for result, _ in found.values():
        assert result["full_result"]["reward"] == 1.0
        assert sum(message["role"] == "assistant" for message in result["message_log"]) == 2
    told = [metrics for _, metrics in found.values() if metrics is not None]
    assert len(told) == 1
    assert "timing/run_rollouts_s" in told[0]


def test_its_environment_loop_takes_the_rewards(nemo: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    torch, rollouts = nemo("torch"), nemo("nemo_rl.experience.rollouts")
    environment = environment_class()({"environments": ["arithmetic"]})
    with blocking_scorer(["arithmetic"], limit=1) as scorer:
        task = scorer.tasks()[0]
    named = {"ground_truth": str(TaskReference("arithmetic", "test", task.id))}
    said = "I cannot say"
    log = [
        {"role": "user", "content": str(task.prompt), "token_ids": torch.tensor([1])},
        {"role": "assistant", "content": said, "token_ids": torch.tensor([2])},
    ]
    batch = {"message_log": [log, log], "task_name": ["hub", "hub"], "extra_env_info": [named, named]}
    # Ray's part of the call, without a cluster.
    monkeypatch.setattr(rollouts, "ray", SimpleNamespace(get=list))

    class Futures(tuple[Any, ...]):
        """A result that is its own future: told apart by identity."""

        __hash__ = object.__hash__

    def step(*given: Any) -> Futures:
        return Futures(environment.step(*given))

    actor = SimpleNamespace(step=SimpleNamespace(remote=step))
    found = rollouts.calculate_rewards(batch, {"hub": actor})
    assert found.rewards.tolist() == [0.0, 0.0]
    assert found.terminateds.tolist() == [True, True]


def test_its_registry_finds_our_actors(nemo: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    utils, hydra = nemo("nemo_rl.environments.utils"), nemo("hydra.utils")
    registry = nemo("nemo_rl.distributed.ray_actor_environment_registry")
    gym = nemo("nemo_rl.environments.nemo_gym")
    monkeypatch.setattr(utils, "ENV_REGISTRY", dict(utils.ENV_REGISTRY))
    monkeypatch.setattr(gym, "NemoGym", gym.NemoGym)
    monkeypatch.setattr(registry, "ACTOR_ENVIRONMENT_REGISTRY", dict(registry.ACTOR_ENVIRONMENT_REGISTRY))
    ours.register("hub")
    fqn = utils.ENV_REGISTRY["hub"]["actor_class_fqn"]
    assert hasattr(hydra.get_object(fqn), "remote")
    assert not registry.get_actor_python_env(fqn).startswith("uv")
    ours.use_hub_gym()
    assert gym.NemoGym is ours.HubGym
    assert not registry.get_actor_python_env("nemo_rl.environments.nemo_gym.NemoGym").startswith("uv")


def test_nemo_gyms_own_reader_verifies_our_files_again(
    checkout: Callable[..., Path], nemo: Callable[[str], Any], tmp_path: Path
) -> None:
    checkout("nemo-gym")
    try:
        base, reader = (
            import_module("nemo_gym.base_resources_server"),
            import_module("nemo_gym.rollout_reverification"),
        )
    except ImportError as error:
        pytest.skip(f"nemo_gym cannot be imported ({error})")
    from tests.trainers.test_nemo_rl import with_tools

    played = [two_turns(), two_turns(sample=1, reward=0.5), with_tools()]
    results = tmp_path / "out.jsonl"
    write_gym_results(results, played)
    output = reader.OutputPaths(tmp_path / "again.jsonl", tmp_path / "failures.jsonl")
    payloads = reader._prepare_payloads(tmp_path / "out_materialized_inputs.jsonl", results, output, False)
    assert len(payloads) == 3
    for payload, line in zip(payloads, results.read_text().splitlines(), strict=True):
        asked = base.BaseVerifyRequest.model_validate(payload)
        row = json.loads(line)
        assert base.BaseVerifyResponse.model_validate(row).reward == row["reward"]
        again = [item.model_dump(exclude_unset=True) for item in asked.response.output]
        for item, before in zip(again, row["response"]["output"], strict=True):
            if "generation_token_ids" in before:
                assert item["generation_token_ids"] == before["generation_token_ids"]
                assert item["prompt_token_ids"] == before["prompt_token_ids"]
                assert item["generation_log_probs"] == before["generation_log_probs"]
