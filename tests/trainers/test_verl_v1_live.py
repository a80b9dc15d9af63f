"""veRL's V1 trainer, less what needs GPUs: its own class reads the hub's data set, has groups played by the hub's
manager, and draws them from a real TransferQueue on Ray."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rollouthub.authoring.rewards import group_advantages
from rollouthub.errors import ConfigError
from rollouthub.export import training_rows
from rollouthub.store import open_run
from rollouthub.trainers import verl as ours
from tests.trainers.rewarded import ranks
from tests.trainers.rewarded_episodes import RANKED, WORLDS, stepwise_scores
from tests.trainers.verl_engine import Client, HandingClient
from tests.trainers.verl_seeing import GALLERY, Looker, seeing_model
from tests.trainers.verl_set_up import WORLD, System, rows_of_tasks, tiny_model, verl_config

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]

STEP = 3
"""The trainer's; the weights are those of the step before."""
GROUP = 4


@pytest.fixture(scope="module")
def queue(system: System) -> Iterator[ModuleType]:
    """TransferQueue with two storage units, on a Ray of its own."""
    used = system("verl.trainer.ppo.v1.agent_loop_tq")
    ray, transfer_queue, omegaconf = used.ray, used.tq, system("omegaconf").OmegaConf
    ray.init("local", num_cpus=8, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 2**20)
    try:
        transfer_queue.init(omegaconf.create({"backend": {"SimpleStorage": {"num_data_storage_units": 2}}}))
        yield transfer_queue
        transfer_queue.close()
    finally:
        ray.shutdown()


@pytest.fixture
def client(system: System) -> Client:
    return Client(system("verl.workers.rollout.replica").TokenOutput, versions=(STEP - 1,))


class Played:
    """A trainer whose groups the hub plays."""

    def __init__(
        self,
        system: System,
        folder: Path,
        client: Any,
        rows: list[dict[str, Any]],
        config: Any,
        *,
        batch: int | None = None,
    ) -> None:
        """`config` is veRL's; a batch is of all rows where `batch` names no number."""
        data = str(folder / "tasks.parquet")
        ours.write_prompts(rows, data)
        config.data.train_files = config.data.val_files = [data]
        config.data.dataloader_num_workers = 0
        config.data.train_batch_size = config.actor_rollout_ref.actor.ppo_mini_batch_size = batch or len(rows)
        config.actor_rollout_ref.rollout.n = GROUP
        config.algorithm.adv_estimator, config.algorithm.norm_adv_by_std_in_grpo = "grpo", False
        config.trainer.total_epochs = 9
        self.trainer = system("verl.trainer.ppo.v1").get_trainer_cls(config.trainer.v1.trainer_mode)(config)
        self.trainer._init_tokenizer()
        self.trainer._init_dataloader()
        self.trainer.global_steps = STEP
        self.trainer.resource_pool_manager = SimpleNamespace(get_n_gpus=lambda: 1)
        self.trainer.reward_loop_manager = SimpleNamespace(reward_loop_worker_handles=[])
        loader = system("verl.utils.import_utils").load_class_from_fqn
        manager_class = loader("rollouthub.trainers.verl.HubAgentLoopManagerTQ", "AgentLoopManager")
        # As `TaskRunnerV1` makes it: by name, without an event loop.
        self.manager = self.trainer.agent_loop_manager = manager_class.create(
            config=config, llm_client=client, teacher_client=None, reward_loop_worker_handles=[]
        )

    def __enter__(self) -> "Played":
        return self

    def __exit__(self, *_: object) -> None:
        self.manager.close()

    def drawn(self, count: int) -> tuple[Any, dict[str, Any]]:
        """What the trainer begins a step with, drawn when it is played; and what it counts meanwhile."""
        self.trainer._add_batch_to_generate()
        return self.trainer.replay_buffer.sample(global_steps=STEP, partition_id="train", batch_size=count)


def test_v1_draws_whole_groups_of_the_hubs_and_learns_from_them(
    system: System, queue: ModuleType, client: Client, tmp_path: Path
) -> None:
    config = verl_config(system, tmp_path, tiny_model(system, tmp_path / "tiny"))
    with Played(system, tmp_path, client, rows_of_tasks(tmp_path, 2), config) as played:
        trainer, batch = played.trainer, played.drawn(2)[0]
        assert len(batch.keys) == 2 * GROUP
        assert {(tag["min_global_steps"], tag["max_global_steps"]) for tag in batch.tags} == {(STEP - 1, STEP - 1)}
        data = queue.kv_batch_get(keys=batch.keys, partition_id="train")
        spoken, rewards = client.speaker.rows(), dict[str, list[float]]()
        for place in range(len(batch.keys)):
            ids = data["input_ids"][place].tolist()
            begin = len(data["prompts"][place])
            mask, logprobs = spoken.pop(tuple(ids))
            assert ids == [*data["prompts"][place].tolist(), *data["responses"][place].tolist()]
            assert data["response_mask"][place].tolist() == data["loss_mask"][place].tolist() == mask[begin:]
            assert data["rollout_log_probs"][place].tolist() == logprobs[begin:]
            assert data["position_ids"][place].tolist() == list(range(len(ids)))
            rewards.setdefault(data["uid"][place], []).append(data["rm_scores"][place].sum().item())
        assert not spoken
        assert [len(group) for group in rewards.values()] == [GROUP] * 2
        assert sorted(reward for group in rewards.values() for reward in group) == [0.0] * GROUP + [1.0] * GROUP

        # What the trainer makes of it without a GPU.
        config.algorithm.adv_estimator, config.algorithm.norm_adv_by_std_in_grpo = "grpo", False
        config.algorithm.rollout_correction.bypass_mode = True
        metrics: dict[str, Any] = {}
        trainer._compute_advantage(trainer._compute_old_log_prob(batch, metrics), metrics)
        learnt = queue.kv_batch_get(keys=batch.keys, partition_id="train")
        for place in range(len(batch.keys)):
            reward, group = learnt["rm_scores"][place].sum().item(), rewards[learnt["uid"][place]]
            wanted = dict(zip(group, group_advantages(group, "mean"), strict=True))[reward]
            mask = learnt["response_mask"][place].bool()
            assert learnt["advantages"][place][mask].tolist() == pytest.approx([wanted] * int(mask.sum()))
            assert not learnt["advantages"][place][~mask].any()
        trainer._compute_metrics(batch, metrics, {"gen": 1.0, "step": 1.0}, STEP, 0)
        assert metrics["training/off_policy/trajectory_staleness/max"] == 0
        assert metrics["critic/rewards/mean"] == 0.5


@pytest.mark.parametrize("mode", ["sync", "colocate_async"])
def test_a_group_that_is_not_whole_is_replaced_and_stragglers_are_no_part_of_one(
    system: System, queue: ModuleType, client: Client, tmp_path: Path, mode: str
) -> None:
    broken: dict[str, Any] = {"environments": [str(WORLD)], "set": {"broken": 2}, "retries": {"infrastructure": 0}}
    config = verl_config(
        system,
        tmp_path,
        tiny_model(system, tmp_path / "tiny"),
        groups={"redundancy": 2},
        model="mock/say?text=done&latency=0..0.2",
        **broken,
    )
    config.trainer.v1.trainer_mode = mode
    config.trainer.v1.sampler.sync_refill_failed_groups = mode == "sync"  # the others always do
    config.data.shuffle = False
    rows = rows_of_tasks(tmp_path, 4, str(WORLD), "test", set={"broken": 2})
    with Played(system, tmp_path, client, rows, config, batch=2) as played:
        batch, metrics = played.drawn(2)
        assert metrics["training/rollout_failure/evicted_samples"] == 2
        data = queue.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["uid", "reward_model"])
        tasks = [json.loads(each["ground_truth"])["task_id"] for each in data["reward_model"]]
        assert sorted(tasks) == ["1"] * GROUP + ["3"] * GROUP
        assert {tag["min_global_steps"] for tag in batch.tags} == {STEP - 1}, (
            "nobody tells: the weights of the step before"
        )
        (directory,) = (tmp_path / "runs").iterdir()
        with open_run(directory) as reader:
            begun = Counter(each.task.id for each in reader.rollouts())
        assert begun["1"] == begun["3"] == GROUP + 2


def test_v1_validates_with_the_hub(system: System, queue: ModuleType, client: Client, tmp_path: Path) -> None:
    config = verl_config(system, tmp_path, tiny_model(system, tmp_path / "tiny"))
    config.actor_rollout_ref.rollout.val_kwargs.n = 2
    with Played(system, tmp_path, client, rows_of_tasks(tmp_path, 3), config) as played:
        metrics = played.trainer._validate()
    assert metrics["val-core/arithmetic/reward/mean@2"] == 0.5
    assert {asked["temperature"] for asked in client.asked} == {config.actor_rollout_ref.rollout.val_kwargs.temperature}


@pytest.mark.parametrize("rewards", ["verdict", "turns"])
def test_v1_compares_a_seat_with_the_same_seat_and_has_turns_on_their_tokens(
    system: System, queue: ModuleType, tmp_path: Path, rewards: str
) -> None:
    """Two seats of one policy, with opposed rewards: each is a session of V1's, in a group of its seat's."""
    world = f"{WORLDS}:Opposed"
    config = verl_config(
        system, tmp_path, tiny_model(system, tmp_path / "tiny"), entry={"rewards": rewards}, environments=[world]
    )
    config.actor_rollout_ref.rollout.calculate_log_probs = True
    client = HandingClient(system("verl.workers.rollout.replica").TokenOutput)
    with Played(system, tmp_path, client, rows_of_tasks(tmp_path, 1, world, "test"), config) as played:
        trainer, (batch, _) = played.trainer, played.drawn(1)
        assert len(batch.keys) == 2 * GROUP
        config.algorithm.rollout_correction.bypass_mode = True
        metrics: dict[str, Any] = {}
        trainer._compute_advantage(trainer._compute_old_log_prob(batch, metrics), metrics)
        data = queue.kv_batch_get(keys=batch.keys, partition_id="train")
        found: dict[str, list[float]] = {}
        for place in range(len(batch.keys)):
            extras, scores = data["extra_fields"][place]["extras"], data["rm_scores"][place]
            reward, mask = scores.sum().item(), data["response_mask"][place].bool()
            assert data["uid"][place].endswith(f"/{extras['seat']}")
            assert data["advantages"][place][mask].tolist() == pytest.approx([reward - 0.5] * int(mask.sum()))
            found.setdefault(extras["seat"], []).append(reward)
        assert {seat: sorted(each) for seat, each in found.items()} == {
            "giver": [0.0, 0.0, 1.0, 1.0],
            "taker": [0.0, 0.0, 1.0, 1.0],
        }
        validated = {name: value for name, value in trainer._validate().items() if "/reward/" in name}
        assert validated == {"val-core/rewarded/reward/mean@1": 0.5}, "the team's"


def test_v1_has_rewards_of_turns_and_spans_on_their_tokens(system: System, queue: ModuleType, tmp_path: Path) -> None:
    world = f"{WORLDS}:Stepwise"
    config = verl_config(
        system, tmp_path, tiny_model(system, tmp_path / "tiny"), entry={"rewards": "turns"}, environments=[world]
    )
    client = HandingClient(system("verl.workers.rollout.replica").TokenOutput)
    with Played(system, tmp_path, client, rows_of_tasks(tmp_path, 1, world, "test"), config) as played:
        batch, _ = played.drawn(1)
    data = queue.kv_batch_get(keys=batch.keys, partition_id="train")
    (directory,) = (tmp_path / "runs").iterdir()
    with open_run(directory) as reader:
        records = {each.rollout_id: each for each in reader.rollouts()}
    for place in range(GROUP):
        record = records[data["extra_fields"][place]["extras"]["rollout_id"]]
        (row,) = training_rows(record)
        assert data["rm_scores"][place].tolist() == stepwise_scores(row)


def test_v1_learns_from_the_verdict_on_a_group(system: System, queue: ModuleType, tmp_path: Path) -> None:
    config = verl_config(system, tmp_path, tiny_model(system, tmp_path / "tiny"), environments=[RANKED])
    client = HandingClient(system("verl.workers.rollout.replica").TokenOutput)
    with Played(system, tmp_path, client, rows_of_tasks(tmp_path, 1, RANKED, "test"), config) as played:
        batch, _ = played.drawn(1)
        config.algorithm.rollout_correction.bypass_mode = True
        metrics: dict[str, Any] = {}
        played.trainer._compute_advantage(played.trainer._compute_old_log_prob(batch, metrics), metrics)
    data = queue.kv_batch_get(keys=batch.keys, partition_id="train")
    rewards = [data["rm_scores"][place].sum().item() for place in range(GROUP)]
    assert sorted(rewards) == pytest.approx(ranks(GROUP))
    for place, reward in enumerate(rewards):
        mask = data["response_mask"][place].bool()
        assert data["advantages"][place][mask].tolist() == pytest.approx([reward - 0.5] * int(mask.sum()), abs=1e-5)


def test_v1_breaks_no_member_off_a_group_that_is_judged_as_a_whole(
    system: System, queue: ModuleType, client: Client, tmp_path: Path
) -> None:
    weights = tiny_model(system, tmp_path / "tiny")
    config = verl_config(system, tmp_path, weights, groups={"redundancy": 1}, environments=[RANKED])
    with pytest.raises(ConfigError, match="so that none can be broken off; leave redundancy out"):
        Played(system, tmp_path, client, rows_of_tasks(tmp_path, 1, RANKED, "test"), config)


def test_each_manager_says_which_trainer_it_is_for(
    system: System, queue: ModuleType, client: Client, tmp_path: Path
) -> None:
    config = verl_config(system, tmp_path, tiny_model(system, tmp_path / "tiny"))
    rows = rows_of_tasks(tmp_path, 1)
    with Played(system, tmp_path, client, rows, config) as played:
        with pytest.raises(ConfigError, match=r"HubAgentLoopManager$"):
            played.manager.generate_sequences(SimpleNamespace(non_tensor_batch={}))
        waiting = ours.HubAgentLoopManager.create(config=config, llm_client=client)
        with pytest.raises(ConfigError, match="HubAgentLoopManagerTQ"):
            waiting.generate_sequences(played.trainer._next_train_batch())


def test_v1_gets_the_pictures_of_a_groups_tools(
    system: System, queue: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = seeing_model(system, tmp_path / "seeing", monkeypatch)
    config = verl_config(system, tmp_path, tmp_path / "seeing", environments=[GALLERY])
    client = Looker(system("verl.workers.rollout.replica").TokenOutput)
    rows = rows_of_tasks(tmp_path, 2, GALLERY, "test")
    with Played(system, tmp_path, client, rows, config) as played:
        batch, _ = played.drawn(2)
    data = queue.kv_batch_get(keys=batch.keys, partition_id="train")
    assert len(batch.keys) == 2 * GROUP
    for place in range(len(batch.keys)):
        ids = data["input_ids"][place]
        seen = data["multi_modal_inputs"][place]
        patches = seen["image_grid_thw"].prod().item()
        assert seen["pixel_values"].shape[0] == patches
        assert (ids == processor.image_token_id).sum() == patches // 4
        assert data["position_ids"][place].shape == (4, len(ids))
        assert data["rm_scores"][place].sum() == 1.0, "the policy saw the picture"
