"""veRL's own classes: its agent loop worker drives ours, its batch holds ours, its advantages and losses take it."""

import asyncio
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from anyio import Event, create_task_group, to_thread

from rollouthub import Rollout
from rollouthub.authoring.rewards import group_advantages
from rollouthub.errors import ConfigError
from rollouthub.export import NotTrainable, Refusal, TrainingRow, training_rows
from rollouthub.models.mock.mock_server import serve_mock
from rollouthub.store import open_run
from rollouthub.trainers import verl as ours
from rollouthub.trainers.verl.agent_loop_entry import served_urls
from tests.export.made import rollout, turn
from tests.trainers.verl_engine import Client
from tests.trainers.verl_set_up import (
    PROMPT,
    RESPONSE,
    WORLD,
    System,
    prompts_batch,
    rows_of_tasks,
    tiny_model,
    verl_config,
)

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


@pytest.fixture
def verl(system: System) -> ModuleType:
    return system("verl")


@pytest.fixture
def model_folder(verl: ModuleType, system: System, tmp_path: Path) -> Path:
    return tiny_model(system, tmp_path / "tiny")


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


async def run_loop(system: System, config: Any, client: Any, row: dict[str, Any], **fields: Any) -> Any:
    """One row's agent loop, made by hydra as veRL's workers make it."""
    agent_loop, hydra, omegaconf = (
        system("verl.experimental.agent_loop.agent_loop"),
        system("hydra"),
        system("omegaconf"),
    )
    model = system("verl.utils.config").omega_conf_to_dataclass(config.actor_rollout_ref.model)
    (entry,) = omegaconf.OmegaConf.load(config.actor_rollout_ref.rollout.agent.agent_loop_config_path)
    loop = hydra.utils.instantiate(
        config=entry,
        trainer_config=agent_loop.DictConfigWrap(config=config),
        server_manager=client,
        tokenizer=model.tokenizer,
        processor=None,
        dataset_cls=system("verl.utils.dataset.rl_dataset").RLHFDataset,
        data_config=agent_loop.DictConfigWrap(config.data),
        tools=agent_loop.ToolListWrap([]),
    )
    assert isinstance(loop, agent_loop.AgentLoopBase)
    return await loop.run({"temperature": 1.0, "top_p": 1.0, "top_k": -1, "logprobs": True}, **row, **fields)


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


def group_of(rewards: Sequence[float], group: str) -> list[Rollout]:
    """Rollouts of different lengths, the environment's words between the policy's."""
    return [
        rollout(
            turn(0, [3, 4, 5][: 1 + place % 3], [10 + place, 11]),
            turn(1, [*[3, 4, 5][: 1 + place % 3], 10 + place, 11, 20, 21], [12] * (1 + place)),
            reward=reward,
            group=group,
            sample=place,
        )
        for place, reward in enumerate(rewards)
    ]


def training_batch() -> tuple[list[TrainingRow], list[Rollout]]:
    rollouts = [*group_of([1.0, 0.0, 0.5, 0.25], "a"), *group_of([0.0, 1.0, 1.0], "b"), *group_of([0.5, 0.5], "c")]
    return [row for each in rollouts for row in training_rows(each)], rollouts


def test_a_batch_survives_verls_own_handling_with_every_value_as_it_was(verl: ModuleType) -> None:
    rows, _ = training_batch()
    data = ours.data_proto(rows, 0, vocabulary=64)
    data.check_consistency()
    again = verl.DataProto.concat(data.chunk(3))
    found = ours.rows_of_data_proto(again)
    assert [
        (each.uid, each.prompt_ids, each.response_ids, each.response_mask, each.response_logprobs, each.reward)
        for each in found
    ] == [
        (
            row.rollout.group_id,
            row.prompt_ids,
            row.response_ids,
            row.response_mask,
            row.response_logprobs,
            row.reward,
        )
        for row in rows
    ]


def test_batches_of_a_stream_are_whole_groups(verl: ModuleType) -> None:
    _, rollouts = training_batch()
    batches = list(ours.data_protos(iter(rollouts), 0, batch_rows=4))
    assert [len(batch) for batch in batches] == [4, 5]
    assert set(batches[0].non_tensor_batch["uid"]) == {"a"}


def by_group(rollouts: Sequence[Rollout], method: Any) -> list[float]:
    """The hub's own advantages, group by group."""
    found: list[float] = []
    for group in dict.fromkeys(each.group_id for each in rollouts):
        rewards = [each.reward for each in rollouts if each.group_id == group]
        found += [value or 0.0 for value in group_advantages(rewards, method)]
    return found


@pytest.mark.parametrize(("estimator", "method"), [("grpo", "mean"), ("rloo", "leave_one_out")])
def test_verls_advantages_are_the_hubs(system: System, estimator: str, method: str) -> None:
    algos = system("verl.trainer.ppo.core_algos")
    rows, rollouts = training_batch()
    data = ours.data_proto(rows, 0)
    mask = data.batch["response_mask"]
    settings = {"norm_adv_by_std_in_grpo": False} if estimator == "grpo" else {}
    advantages, _ = algos.get_adv_estimator_fn(estimator)(
        token_level_rewards=data.batch["rm_scores"],
        response_mask=mask,
        index=data.non_tensor_batch["uid"],
        **settings,
    )
    wanted = by_group(rollouts, method)
    for place, value in enumerate(wanted):
        length = int(mask[place].sum())
        assert advantages[place][mask[place].bool()].tolist() == pytest.approx([value] * length, abs=1e-6)
    assert advantages[mask == 0].abs().max() == 0


def test_verls_normalised_advantages_agree_with_a_plain_reference(system: System) -> None:
    algos = system("verl.trainer.ppo.core_algos")
    rows, rollouts = training_batch()
    data = ours.data_proto(rows, 0)
    advantages, _ = algos.compute_grpo_outcome_advantage(
        data.batch["rm_scores"], data.batch["response_mask"], data.non_tensor_batch["uid"]
    )
    for place, each in enumerate(rollouts):
        group = [other.reward or 0.0 for other in rollouts if other.group_id == each.group_id]
        mean = sum(group) / len(group)
        std = math.sqrt(sum((reward - mean) ** 2 for reward in group) / (len(group) - 1))
        wanted = ((each.reward or 0.0) - mean) / (std + 1e-6)
        assert advantages[place][0].item() == pytest.approx(wanted, abs=1e-5)


def test_verls_generalised_advantages_pass_over_what_the_environment_wrote(system: System) -> None:
    algos, torch = system("verl.trainer.ppo.core_algos"), system("torch")
    rows, _ = training_batch()
    data = ours.data_proto(rows, 0, rewards="turns")
    mask, rewards = data.batch["response_mask"], data.batch["rm_scores"]
    values = torch.linspace(-1, 1, mask.numel()).reshape(mask.shape) * mask
    gamma, lam = 0.9, 0.8
    _, returns = algos.compute_gae_advantage_return(rewards, values, mask, gamma, lam)
    for place in range(len(rows)):
        tokens = [token for token in range(mask.shape[1]) if mask[place, token]]
        following, running = 0.0, 0.0
        for token in reversed(tokens):
            value = values[place, token].item()
            running = rewards[place, token].item() + gamma * following - value + gamma * lam * running
            following = value
            assert returns[place, token].item() == pytest.approx(running + value, abs=1e-5)


def reference_loss(
    old: Sequence[float], new: Sequence[float], advantages: Sequence[float], mask: Sequence[float]
) -> float:
    """PPO's clipped loss with a dual clip, a token at a time."""
    total = 0.0
    for before, now, advantage, learnt in zip(old, new, advantages, mask, strict=True):
        if not learnt:
            continue
        ratio = math.exp(now - before)
        loss = max(-advantage * ratio, -advantage * min(max(ratio, 0.8), 1.2))
        total += min(-advantage * 3.0, loss) if advantage < 0 else loss
    return total / sum(mask)


def actor_config(system: System) -> Any:
    config = system("verl.workers.config")
    return config.ActorConfig(
        strategy="fsdp", rollout_n=4, ppo_micro_batch_size_per_gpu=4, ppo_mini_batch_size=4, clip_ratio=0.2
    )


def test_verls_policy_loss_agrees_with_a_plain_reference(system: System) -> None:
    algos, torch = system("verl.trainer.ppo.core_algos"), system("torch")
    rows, _ = training_batch()
    data = ours.data_proto(rows, 0)
    old, mask = data.batch["rollout_log_probs"], data.batch["response_mask"]
    new = old + torch.linspace(-2, 2, old.numel()).reshape(old.shape)
    advantages, _ = algos.compute_grpo_outcome_advantage(data.batch["rm_scores"], mask, data.non_tensor_batch["uid"])
    loss, _ = algos.get_policy_loss_fn("vanilla")(
        old_log_prob=old,
        log_prob=new,
        advantages=advantages,
        response_mask=mask,
        loss_agg_mode="token-mean",
        config=actor_config(system),
    )
    flat = [each.flatten().tolist() for each in (old, new, advantages, mask)]
    assert loss.item() == pytest.approx(reference_loss(*flat), rel=1e-5)


def test_a_step_on_a_hub_batch_makes_what_was_rewarded_likelier(system: System, model_folder: Path) -> None:
    algos, torch, transformers = system("verl.trainer.ppo.core_algos"), system("torch"), system("transformers")
    functional = system("verl.utils.torch_functional")
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(model_folder))
    rows, _ = training_batch()
    data = ours.data_proto(rows, 0, vocabulary=512)
    batch, answers = data.batch, data.batch["responses"].shape[1]
    mask = batch["response_mask"]
    advantages, _ = algos.compute_grpo_outcome_advantage(batch["rm_scores"], mask, data.non_tensor_batch["uid"])

    def logprobs() -> Any:
        logits = model(batch["input_ids"], batch["attention_mask"], position_ids=batch["position_ids"]).logits
        return functional.logprobs_from_logits(logits[:, -answers - 1 : -1], batch["responses"])

    old = logprobs().detach()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(5):
        loss, _ = algos.compute_policy_loss_vanilla(old, logprobs(), advantages, mask, config=actor_config(system))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    change = (logprobs().detach() - old) * mask
    assert (change * advantages).sum() > 0
    assert change[advantages.sum(-1) > 0].sum() > change[advantages.sum(-1) < 0].sum()


def test_a_masked_row_gives_no_gradient(system: System) -> None:
    algos, torch = system("verl.trainer.ppo.core_algos"), system("torch")
    rows, _ = training_batch()
    data = ours.data_proto(rows[:4], 0)
    mask = data.batch["response_mask"].clone()
    mask[2] = 0
    new = data.batch["rollout_log_probs"].clone().requires_grad_()
    advantages, _ = algos.compute_grpo_outcome_advantage(data.batch["rm_scores"], mask, data.non_tensor_batch["uid"])
    loss, _ = algos.compute_policy_loss_vanilla(
        data.batch["rollout_log_probs"], new, advantages, mask, "seq-mean-token-mean", actor_config(system)
    )
    loss.backward()
    assert new.grad is not None
    assert new.grad[2].abs().sum() == 0
    assert new.grad[0].abs().sum() > 0
    assert torch.isfinite(loss)


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
