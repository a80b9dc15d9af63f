"""One step of veRL: its batch is played by the hub with a server, its advantages, its actor's update.

The batch comes from the hub's agent loop manager, as veRL's trainer asks it; the update is that of veRL's own worker
(`ActorRolloutRefWorker.update_actor`, FSDP2), called as its trainer does. veRL knows no CPU: there, a platform of ours
is registered, by the way that veRL has for it.
"""

import math
import os
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import rollouthub
from rollouthub.store import open_run
from rollouthub.trainers.verl import data_protos
from tests.gpu.cells import Given, answer
from tests.gpu.trl_async_cell import BABBLING
from tests.gpu.verl_cpu import nothing, use_cpu
from tests.ports import free_port
from tests.trainers.verl_set_up import prompts_batch, rows_of_tasks, verl_config

TASKS, SAMPLES = 4, 4
ROWS = TASKS * SAMPLES
PROMPT, RESPONSE = 512, 64


def alone() -> None:
    """Be the only rank of a job, as Ray's worker groups set their actors up."""
    os.environ |= {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }


def configured(given: Given, folder: Path) -> Any:
    """veRL's whole configuration, with the hub's agent loop."""
    run: dict[str, Any] = {
        "environments": [str(BABBLING)],
        "model": f"hosted_vllm/{given['name']}",
        "base_url": given["url"],
        "sampling": {"max_tokens": given["sampling"]["max_tokens"], "extra": given["sampling"]["extra"]},
    }
    config: Any = verl_config(import_module, folder, Path(given["folder"]), **run)
    actor = config.actor_rollout_ref.actor
    config.actor_rollout_ref.rollout.n = SAMPLES
    config.actor_rollout_ref.rollout.prompt_length = PROMPT
    config.actor_rollout_ref.rollout.response_length = RESPONSE
    config.actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu = ROWS
    config.actor_rollout_ref.model.use_remove_padding = False
    config.actor_rollout_ref.model.override_config = {"attn_implementation": "sdpa"}
    actor.strategy, actor.optim.lr = "fsdp2", 1e-3
    actor.ppo_mini_batch_size, actor.ppo_micro_batch_size_per_gpu = TASKS, ROWS
    actor.fsdp_config.strategy = "fsdp2"
    actor.fsdp_config.use_torch_compile = actor.use_torch_compile = False
    with import_module("omegaconf").open_dict(actor.fsdp_config):
        # In bfloat16 a log-probability of -8 is rounded to the nearest thirty-second.
        actor.fsdp_config.mixed_precision = dict.fromkeys(("param_dtype", "reduce_dtype", "buffer_dtype"), "fp32")
    return config


def played(config: Any, folder: Path) -> Any:
    """A batch as veRL's trainer has it after its rollouts."""
    loader: Any = import_module("verl.utils.import_utils").load_class_from_fqn
    manager = loader("rollouthub.trainers.verl.HubAgentLoopManager", "AgentLoopManager").create(
        config=config, llm_client=None
    )
    rows = rows_of_tasks(folder, TASKS, str(BABBLING), "test")
    batch = prompts_batch(import_module, rows, SAMPLES)
    return batch.union(manager.generate_sequences(batch))


def played_before(given: Given, folder: Path) -> Any:
    """The same batch of a finished run, for an engine that does not know veRL's sampling parameters."""
    transformers: Any = import_module("transformers")
    rollouthub.evaluate(
        str(BABBLING),
        f"hosted_vllm/{given['name']}",
        base_url=given["url"],
        limit=TASKS,
        repeats=SAMPLES,
        sampling=given["sampling"],
        directory=folder / "played",
        track=(),
        progress=False,
    )
    padding = transformers.AutoTokenizer.from_pretrained(given["folder"]).pad_token_id
    with open_run(folder / "played") as reader:
        (batch,) = data_protos(reader.rollouts(), padding, batch_rows=ROWS, group_size=SAMPLES)
    return batch


def with_advantages(batch: Any) -> Any:
    """A batch with veRL's own advantages."""
    batch.batch["token_level_scores"] = batch.batch["token_level_rewards"] = batch.batch["rm_scores"]
    compute: Any = import_module("verl.trainer.ppo.ray_trainer").compute_advantage
    return compute(batch, adv_estimator="grpo", num_repeat=SAMPLES, norm_adv_by_std_in_grpo=True)


def asked(batch: Any, temperature: float) -> Any:
    """A batch in the form in which veRL's trainer hands it to its workers."""
    tensordicts: Any = import_module("verl.utils.tensordict_utils")
    unpad: Any = import_module("verl.workers.utils.padding").left_right_2_no_padding
    batch.meta_info |= {"multi_turn": False, "temperature": temperature}
    data = unpad(batch.to_tensordict())
    tensordicts.assign_non_tensor(
        data,
        calculate_entropy=False,
        distillation_use_topk=False,
        distillation_only=False,
        global_batch_size=ROWS,
        mini_batch_size=ROWS,
        epochs=1,
        seed=0,
        dataloader_kwargs={"shuffle": False},
        compute_loss=True,
    )
    return data


def step(given: Given) -> dict[str, Any]:
    """Play, and update the actor once."""
    alone()
    if given["is_cpu"]:
        use_cpu()
    folder = Path(given["directory"])
    folder.mkdir(parents=True, exist_ok=True)
    config = configured(given, folder)
    began = time.perf_counter()
    batch = with_advantages(played_before(given, folder) if given["is_stand_in"] else played(config, folder))
    rollouts = time.perf_counter() - began
    # It patches a class that TRL no longer has, where TRL is installed, too.
    patches: Any = import_module("verl.models.transformers.monkey_patch")
    patches.is_trl_available = nothing
    worker: Any = import_module("verl.workers.engine_workers").ActorRolloutRefWorker(config.actor_rollout_ref, "actor")
    worker.init_model()
    module = worker.actor.engine.module
    before = {name: _whole(each).clone() for name, each in module.named_parameters()}
    temperature = config.actor_rollout_ref.rollout.temperature
    batch.batch["old_log_probs"] = batch.batch["rollout_log_probs"]
    began = time.perf_counter()
    output = worker.update_actor(asked(batch, temperature))
    seconds = time.perf_counter() - began
    metrics: Any = import_module("verl.utils.tensordict_utils").get(output, "metrics")
    moved = {name: float((_whole(each) - before[name]).abs().max()) for name, each in module.named_parameters()}
    found = {name: _number(value) for name, value in metrics.items()}
    return {
        "rollout_seconds": rollouts,
        "seconds": seconds,
        "rows": len(batch),
        "rewards": batch.batch["rm_scores"].sum(-1).tolist(),
        "moved": max(moved.values()),
        "is_finite": all(map(math.isfinite, [*moved.values(), found["loss"]])),
        "grad_norm": found["grad_norm"],
        "kl": found["actor/ppo_kl"],
    }


def _whole(parameter: Any) -> Any:
    tensor = parameter.detach()
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _number(value: Any) -> float:
    numpy: Any = import_module("numpy")
    return float(numpy.mean(value))


if __name__ == "__main__":
    answer(step)
