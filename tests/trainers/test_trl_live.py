"""TRL itself, where it is installed: its trainers take what the hub makes, and learn from it or leave it out."""

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rollouthub
from rollouthub.authoring.rewards import group_advantages
from rollouthub.errors import ConfigError, SupplyError
from rollouthub.export.segment import segments
from rollouthub.models.credentials import Credentials
from rollouthub.rollout import Intervention, Rollout
from rollouthub.store import open_run
from rollouthub.trainers.stream import RolloutGroup, blocking_worker, rollout_worker
from rollouthub.trainers.trl import HubRolloutWorker, HubSpec, hub_reward, prompts_of, rollout_func
from rollouthub.trainers.trl.asynchronous import samples_of
from tests.export.made import forked, rollout, turn

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]
System = Callable[[str], ModuleType]
GAME = Path(__file__).parent / "trl_game.py"
LEARNING = Path(__file__).parents[2] / "examples" / "learning"
NOBODY = Credentials({})


@pytest.fixture
def tiny(system: System, monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[Any, Any]]:
    """The example's random policy and its tokenizer."""
    for name in ("torch", "transformers", "trl"):
        system(name)
    monkeypatch.setattr(sys, "path", [str(LEARNING), *sys.path])
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    policy: Any = __import__("calculator_policy")
    system("torch").set_num_threads(1)
    tokenizer = policy.trained_tokenizer(["<|im_start|>user\nStart at 3.<|im_end|>\n<|im_start|>assistant\n"])
    yield policy.random_model(tokenizer, 0), tokenizer
    sys.modules.pop("calculator_policy", None)


def config(trl: Any, folder: Path, **more: Any) -> Any:
    """Three steps of four rollouts."""
    return trl.GRPOConfig(
        output_dir=str(folder / "trl"),
        per_device_train_batch_size=4,
        num_generations=2,
        max_steps=3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
        **more,
    )


def test_a_group_is_rollout_samples_to_the_letter(system: System) -> None:
    """Its own class, one a row, forks included; members that must not be learnt from make none."""
    sample_class = system("trl.experimental.async_grpo.async_rollout_worker").RolloutSample
    members = (rollout(sample=0, reward=1.0), forked(sample=1, reward=0.0), rollout(sample=2, told=(_told(),)))
    group = RolloutGroup("g1", members[0].environment, members[0].task, members, policy_version=4)
    samples, metrics = samples_of(group, 7, "mean_std")
    rows = [row for member in members[:2] for row in segments(member)]
    advantages = group_advantages([1.0, 0.0], "mean_std")  # the helped one moves nobody's baseline
    assert [type(each) for each in samples] == [sample_class] * 3
    for sample, row in zip(samples, rows, strict=True):
        assert sample.input_ids.tolist() == list(row.token_ids)
        assert sample.completion_mask.tolist() == list(row.loss_mask)
        assert sample.old_log_probs.tolist() == list(row.logprobs)
        assert (sample.input_ids.dtype, sample.old_log_probs.dtype) == ("int64", "float32")
        assert (sample.group_id, sample.model_version) == (7, 3)
    assert [each.advantage for each in samples] == [advantages[0], advantages[1], advantages[1]]
    assert metrics["hub/refused_total"] == 1.0


def _told() -> Intervention:
    return Intervention(at=0.0, seat="agent", text="try again")


def test_a_fork_changes_nothing_in_trls_mean_over_tokens(system: System) -> None:
    """Its own collator says what the loss is taken over: every sampled token once, each of one worth."""
    theirs = system("trl.experimental.async_grpo.async_grpo_trainer")
    joined = rollout(
        turn(0, [1, 2, 3], [4, 5]),
        turn(1, [1, 2, 3, 4, 5, 6], [7, 8]),
        turn(2, [1, 2, 3, 4, 5, 6, 7, 8, 9], [7]),
        sample=1,
        reward=0.0,
    )
    terms: list[list[float]] = []
    for second in (forked(sample=1, reward=0.0), joined):
        members = (rollout(sample=0, reward=1.0), second, rollout(sample=2, reward=0.25))
        group = RolloutGroup("g1", second.environment, second.task, members, policy_version=3)
        packed = theirs.TreeRow()
        for sample in samples_of(group, 1, "mean_std")[0]:
            packed.add(asdict(sample))
        batch = theirs.DataCollatorForRollout(pad_token_id=0)([[packed]])
        terms.append(sorted(batch["advantages"][batch["token_index"] >= 0].tolist()))
        assert batch["global_n_tokens"].tolist() == [len(terms[-1])]
    assert terms[0] == terms[1]
    assert len(terms[0]) == 3 + 5 + 3


def test_the_worker_has_the_protocol_and_its_samples_pass_through_trls_own_queue(
    system: System, tmp_path: Path
) -> None:
    """Played with the mock, put through TRL's own data set of a queue."""
    theirs = system("trl.experimental.async_grpo.async_grpo_trainer")
    worker = HubRolloutWorker(
        lambda: rollouthub.stream_rollouts(
            environments=("arithmetic",),
            model="mock/solver?accuracy=0.5",
            directory=tmp_path / "run",
            repeats=4,
            batch=2,
            epochs=None,
            max_staleness=4,
            seed=0,
            credentials=NOBODY,
        ),
        capacity=6,
    )
    names: list[str] = [*vars(theirs.RolloutWorkerProtocol), *theirs.RolloutWorkerProtocol.__annotations__]
    assert [name for name in names if not name.startswith("_") and not hasattr(worker, name)] == []
    worker.start()
    try:
        worker.update_model_version(1)
        metrics: defaultdict[str, list[Any]] = defaultdict(list)
        queued = theirs.RolloutQueueDataset(
            worker.rollout_buffer,
            model_version_fn=lambda: 1,
            max_staleness=4,
            poll_interval_s=0.1,
            check_health_fn=worker.check_health,
            stale_after_s=60,
            metrics=metrics,
        )
        found = [sample for sample, _ in zip(queued, range(24), strict=False)]
        assert worker.rollout_buffer.qsize() <= 6
        worker.check_health(60)
    finally:
        worker.stop()
    worker.stop()
    assert all(sample["completion_mask"].sum() > 0 for sample in found)
    assert {sample["metrics"]["reward"] for sample in found} == {0.0, 1.0}
    assert max(metrics["sample/staleness_max"]) <= 1
    (*_, version) = [row.policy_version_max for row in _stored(tmp_path / "run")]
    assert version == 1


def _stored(directory: Path) -> list[Rollout]:
    with open_run(directory) as reader:
        return list(reader.rollouts())


def test_a_worker_whose_supply_breaks_says_so(system: System, tmp_path: Path) -> None:
    """Not for ever waited for."""
    system("trl")
    worker = HubRolloutWorker(
        lambda: rollouthub.stream_rollouts(
            environments=("arithmetic",),
            model="mock/solver",
            directory=tmp_path / "run",
            limit=1,
            repeats=2,
            seed=0,
            credentials=NOBODY,
        )
    )
    worker.start()
    try:
        assert worker.rollout_buffer.get(timeout=30).input_ids.size
        worker.rollout_buffer.get(timeout=30)
        assert worker._feeding is not None  # pyright: ignore[reportPrivateUsage]
        worker._feeding.result(30)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(SupplyError, match="tasks' end"):
            worker.check_health(60)
    finally:
        worker.stop()


def test_grpo_trains_on_objects_that_are_episodes(system: System, tiny: tuple[Any, Any], tmp_path: Path) -> None:
    """`environment_factory`: TRL generates, calls the methods, and leaves out what has no verdict."""
    system("jmespath")  # which TRL reads tool calls with, under transformers below 5.13
    trl, (model, tokenizer) = system("trl"), tiny
    templates = Path(str(trl.__file__)).parent / "chat_templates"
    tokenizer.chat_template = (templates / "qwen2_5.jinja").read_text()
    with HubSpec([str(GAME)], credentials=NOBODY) as spec:
        trainer = trl.GRPOTrainer(
            model=model,
            args=config(trl, tmp_path, max_completion_length=8),
            train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=spec.reward_funcs,
            processing_class=tokenizer,
        )
        assert {tool.__name__ for tool in trainer.tools} == {"add", "submit"}
        schema = system("transformers.utils").get_json_schema(trainer.tools[0])["function"]
        assert schema["parameters"]["properties"]["number"]["type"] == "integer"
        assert schema["parameters"]["required"] == ["number"]
        assert schema["parameters"]["properties"]["number"]["description"] == "How far."
        trainer.train()
        assert [step["reward"] for step in trainer.state.log_history if "reward" in step]


def test_grpo_trains_on_rollouts_that_the_hub_plays(system: System, tiny: tuple[Any, Any], tmp_path: Path) -> None:
    """`rollout_func`: what TRL logs is what the verifier gave; a task without a verdict is no zero."""
    trl, (model, tokenizer) = system("trl"), tiny
    opening = rollout_worker(
        environments=(str(GAME),),
        model="mock/say?text=done",
        directory=tmp_path / "run",
        retries={"infrastructure": 0, "verifier": 0},
        credentials=NOBODY,
    )
    with blocking_worker(opening) as worker:
        trainer = trl.GRPOTrainer(
            model=_wide(system, model),
            reward_funcs=hub_reward,
            args=config(trl, tmp_path, shuffle_dataset=False),
            train_dataset=prompts_of(worker),
            rollout_func=rollout_func(worker, moves_weights=True),
            processing_class=tokenizer,
        )
        trainer.train()
    logged = [step["reward"] for step in trainer.state.log_history if "reward" in step]
    assert logged == [0.5, 0.5, 0.5]
    versions = {row.policy_version_max for row in _stored(tmp_path / "run") if row.reward is not None}
    assert versions == {0, 1, 2}


def test_a_policy_that_nobody_updates_is_refused(system: System, tiny: tuple[Any, Any], tmp_path: Path) -> None:
    trl, (model, tokenizer) = system("trl"), tiny
    opening = rollout_worker(
        environments=(str(GAME),), model="mock/say?text=done", directory=tmp_path / "run", credentials=NOBODY
    )
    with blocking_worker(opening) as worker:
        trainer = trl.GRPOTrainer(
            model=_wide(system, model),
            reward_funcs=hub_reward,
            args=config(trl, tmp_path),
            train_dataset=prompts_of(worker),
            rollout_func=rollout_func(worker),
            processing_class=tokenizer,
        )
        with pytest.raises(ConfigError, match=r'vllm_mode="server"'):
            trainer.train()
    assert _stored(tmp_path / "run") == []


def test_each_of_two_processes_plays_its_own_prompts(system: System, tmp_path: Path) -> None:
    for name in ("torch", "transformers", "trl"):
        system(name)
    script = Path(__file__).with_name("drive_trl_ranks.py")
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-endpoint", "127.0.0.1:0"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *launcher, "--rdzv-backend", "c10d", script, tmp_path],
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "HF_HUB_OFFLINE": "1",
            "TRL_EXPERIMENTAL_SILENCE": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    parts = [_stored(tmp_path / "run" / f"rank-{rank}") for rank in (0, 1)]
    assert [len(part) for part in parts] == [4, 4]
    for part in parts:
        assert [len({row.task.id for row in part[step : step + 2]}) for step in (0, 2)] == [1, 1]
        assert {row.policy_version_max for row in part} == {0, 1}


def _wide(system: System, model: Any) -> Any:
    """A model that knows the mock's tokens, which are bytes."""
    model.resize_token_embeddings(300)
    return model
