"""veRL's own agent loop worker drives ours, its manager asks what veRL serves, its data set reads ours."""

import asyncio
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from anyio import Event, create_task_group, to_thread

from rollouthub.errors import ConfigError
from rollouthub.export import NotTrainable, Refusal, TrainingRow, training_rows
from rollouthub.models.mock.mock_server import serve_mock
from rollouthub.store import open_run
from rollouthub.trainers import verl as ours
from rollouthub.trainers.verl.agent_loop_entry import served_urls
from tests.trainers.verl_engine import Client
from tests.trainers.verl_set_up import (
    PROMPT,
    RESPONSE,
    WORLD,
    System,
    prompts_batch,
    rows_of_tasks,
    run_loop,
    verl_config,
)

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


@pytest.fixture
def client(verl: ModuleType, system: System) -> Client:
    return Client(system("verl.workers.rollout.replica").TokenOutput)


def assert_is_what_was_spoken(data: Any, client: Client) -> None:
    spoken = client.speaker.rows()
    rows = ours.rows_of_data_proto(data)
    assert len(rows) == len(spoken)
    for row in rows:
        mask, logprobs = spoken[(*row.prompt_ids, *row.response_ids)]
        begin = len(row.prompt_ids)
        assert row.response_mask == mask[begin:]
        assert row.response_logprobs == logprobs[begin:]
        assert sum(mask[:begin]) == 0


def test_verls_own_worker_plays_the_hub_with_verls_engine(
    system: System, model_folder: Path, client: Client, tmp_path: Path
) -> None:
    agent_loop = system("verl.experimental.agent_loop.agent_loop")
    config = verl_config(system, tmp_path, model_folder)
    batch = prompts_batch(system, rows_of_tasks(tmp_path, 2), 2)
    worker = agent_loop.AgentLoopWorker(config, client)
    data = asyncio.run(worker.generate_sequences(batch))
    assert_is_what_was_spoken(data, client)
    assert sorted(row.reward for row in ours.rows_of_data_proto(data)) == [0.0, 0.0, 1.0, 1.0]
    assert data.non_tensor_batch["min_global_steps"].tolist() == [5] * 4
    assert data.non_tensor_batch["__num_turns__"].tolist() == [4] * 4
    assert data.meta_info["reward_extra_keys"] == ["is_scored", "passed"]
    assert all(asked["logprobs"] is True for asked in client.asked)
    assert len(client.sessions) == 4, "each sample keeps to its own server, for the prefix cache"


async def test_the_v1_trainer_gets_a_list_with_the_versions_that_veRL_told(
    system: System, model_folder: Path, tmp_path: Path
) -> None:
    client = Client(system("verl.workers.rollout.replica").TokenOutput, versions=(7, 8))
    config = verl_config(system, tmp_path, model_folder)
    (row,) = rows_of_tasks(tmp_path, 1)
    (output,) = await run_loop(system, config, client, row, uid="u", session_id=0)
    told = output.as_dict()
    assert (output.extra_fields["min_global_steps"], output.extra_fields["max_global_steps"]) == (7, 8)
    ((ids, (mask, logprobs)),) = client.speaker.rows().items()
    begin = len(told["prompts"])
    assert [*told["prompts"].tolist(), *told["responses"].tolist()] == list(ids)
    assert told["response_mask"].tolist() == mask[begin:]
    assert told["rollout_log_probs"].tolist() == logprobs[begin:]
    assert told["rm_scores"].tolist() == [0.0] * (len(ids) - begin - 1) + [output.reward_score]


async def test_no_response_grows_beyond_veRLs_length(
    system: System, model_folder: Path, client: Client, tmp_path: Path
) -> None:
    config = verl_config(system, tmp_path, model_folder)
    config.actor_rollout_ref.rollout.response_length = 100
    (row,) = rows_of_tasks(tmp_path, 1)
    outputs = await run_loop(system, config, client, row, uid="u", session_id=0)
    assert client.asked[0]["max_tokens"] == 100
    assert all(len(output.response_ids) <= 100 for output in outputs)
    assert outputs[0].extra_fields["extras"]["is_truncated"]


async def test_what_is_unscored_fails_its_sample_in_v1_and_is_masked_in_v0(
    system: System, model_folder: Path, client: Client, tmp_path: Path
) -> None:
    broken: dict[str, Any] = {"environments": [str(WORLD)], "set": {"broken": 1}, "retries": {"infrastructure": 0}}
    config = verl_config(system, tmp_path, model_folder, **broken)
    (row,) = rows_of_tasks(tmp_path, 1, str(WORLD), "test", set={"broken": 1})
    with pytest.raises(NotTrainable) as caught:
        await run_loop(system, config, client, row, uid="u", session_id=0)
    assert caught.value.refused.refusal is Refusal.UNSCORED
    masked = await run_loop(system, config, client, row, uid="u")
    assert sum(masked.response_mask) == 0
    assert masked.extra_fields["extras"]["refusal"] == "unscored"


def test_the_manager_plays_whole_batches_and_moves_no_baseline(
    system: System, model_folder: Path, client: Client, tmp_path: Path
) -> None:
    config = verl_config(system, tmp_path, model_folder)
    loader = system("verl.utils.import_utils").load_class_from_fqn
    manager = loader("rollouthub.trainers.verl.HubAgentLoopManager", "AgentLoopManager").create(
        config=config, llm_client=client
    )
    rows = rows_of_tasks(tmp_path, 2)
    batch = prompts_batch(system, rows, 2)
    # Twice: veRL's synchronous trainer calls it without an event loop, so that each call has another one.
    manager.generate_sequences(batch)
    data = manager.generate_sequences(batch)
    whole = batch.union(data)
    assert data.batch["prompts"].shape == (4, PROMPT)
    assert data.batch["responses"].shape == (4, RESPONSE)
    assert sorted(data.batch["rm_scores"].sum(-1).tolist()) == [0.0, 0.0, 1.0, 1.0]
    assert system("verl.trainer.ppo.reward").extract_reward(whole)[0].shape == (4, RESPONSE)
    spoken = client.speaker.rows()
    for row in ours.rows_of_data_proto(data):
        mask, logprobs = spoken[(*row.prompt_ids, *row.response_ids)]
        assert (row.response_mask, row.response_logprobs) == (
            mask[len(row.prompt_ids) :],
            logprobs[len(row.prompt_ids) :],
        )


class Balancer:
    """What veRL's client asks for its replicas: an actor of Ray's, whose methods have `remote`."""

    def __init__(self, *addresses: str) -> None:
        async def remote() -> list[str]:
            return list(addresses)

        self.get_all_servers = SimpleNamespace(remote=remote)


def arrays(row: ours.BatchRow | TrainingRow) -> tuple[Any, ...]:
    """What is learnt from."""
    return row.prompt_ids, row.response_ids, row.response_mask, row.response_logprobs


async def test_the_manager_asks_the_replicas_that_veRL_serves(
    system: System, model_folder: Path, tmp_path: Path
) -> None:
    run: dict[str, Any] = {"model": "hosted_vllm/mock", "base_url": "served"}
    config = verl_config(system, tmp_path, model_folder, **run)
    batch = prompts_batch(system, await to_thread.run_sync(rows_of_tasks, tmp_path, 2), 2)
    is_up, ports = Event(), list[int]()

    def ready(port: int) -> None:
        ports.append(port)
        is_up.set()

    data: Any = None
    async with create_task_group() as tasks:
        tasks.start_soon(partial(serve_mock, "mock/solver", "127.0.0.1", 0, ready=ready))
        await is_up.wait()
        served = SimpleNamespace(_load_balancer=Balancer(f"127.0.0.1:{ports[0]}"))
        manager = await ours.HubAgentLoopManager.create(config=config, llm_client=served)
        data = await manager.generate_sequences(batch)
        tasks.cancel_scope.cancel()
    rows = ours.rows_of_data_proto(data)
    assert [row.reward for row in rows] == [1.0] * 4
    (directory,) = (tmp_path / "runs").iterdir()
    with open_run(directory) as reader:
        records = [row for each in reader.rollouts() for row in training_rows(each)]
    assert sorted(
        (row.prompt_ids, row.response_ids, row.response_mask, row.response_logprobs) for row in rows
    ) == sorted((row.prompt_ids, row.response_ids, row.response_mask, row.response_logprobs) for row in records)


async def test_a_client_without_replicas_is_refused() -> None:
    with pytest.raises(ConfigError, match="no replicas"):
        await served_urls(SimpleNamespace())


def test_verl_reads_the_hubs_data_set_and_scores_with_its_verifier(
    system: System, model_folder: Path, tmp_path: Path
) -> None:
    rows = rows_of_tasks(tmp_path, 3)
    assert ours.write_prompts(rows, tmp_path / "train.parquet") == 3
    config = verl_config(system, tmp_path, model_folder)
    tokenizer = system("verl.utils").hf_tokenizer(str(model_folder))
    dataset = system("verl.utils.dataset.rl_dataset").RLHFDataset(
        [str(tmp_path / "train.parquet")], tokenizer, config.data
    )
    row = dataset[1]
    assert row["raw_prompt"] == rows[1]["prompt"]
    assert row["reward_model"]["ground_truth"] == rows[1]["reward_model"]["ground_truth"]
    omegaconf = system("omegaconf")
    omegaconf.OmegaConf.set_struct(config, False)
    config.reward.custom_reward_function = {"path": "pkg://rollouthub.trainers.verl.reward", "name": "compute_score"}
    compute = system("verl.trainer.ppo.reward").get_custom_reward_fn(config)
    scored = compute(
        data_source=row["data_source"],
        solution_str="I do not know.",
        ground_truth=row["reward_model"]["ground_truth"],
        extra_info=row["extra_info"],
    )
    assert scored == {"score": 0.0, "is_scored": 1.0, "passed": 0.0}
