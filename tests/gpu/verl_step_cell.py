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
from types import SimpleNamespace
from typing import Any

from tests.gpu.cells import Given, answer
from tests.gpu.trl_async_cell import BABBLING
from tests.ports import free_port
from tests.trainers.verl_set_up import prompts_batch, rows_of_tasks, verl_config

TASKS, SAMPLES = 4, 4
ROWS = TASKS * SAMPLES
PROMPT, RESPONSE = 512, 64


def use_cpu() -> None:
    """Have veRL compute on the CPU."""
    torch: Any = import_module("torch")
    manager: Any = import_module("verl.plugin.platform.platform_manager")
    base: Any = import_module("verl.plugin.platform.platform_base").PlatformBase
    memory = dict.fromkeys(
        ("max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved"), lambda *_: 0
    )
    nothing = dict.fromkeys(
        ("empty_cache", "reset_peak_memory_stats", "set_device", "synchronize", "manual_seed", "ipc_collect"),
        lambda *_, **__: None,
    )
    module = SimpleNamespace(
        **memory,
        **nothing,
        is_available=lambda: True,
        current_device=lambda: "cpu",
        device_count=lambda: 1,
        mem_get_info=lambda *_: (0, 1),
        get_rng_state=torch.get_rng_state,
        set_rng_state=torch.set_rng_state,
    )
    answers: dict[str, Any] = {
        "device_name": property(lambda self: "cpu"),
        "vendor_name": property(lambda self: "cpu"),
        "device_module": property(lambda self: module),
        "is_available": lambda self: True,
        "current_device": lambda self: "cpu",
        "device_count": lambda self: 1,
        "get_device_capability": lambda self, *_: (None, None),
        "communication_backend_name": lambda self: "gloo",
        "visible_devices_envvar": lambda self: "CUDA_VISIBLE_DEVICES",
        "ray_resource_name": lambda self: "CPU",
        "ray_noset_envvars": lambda self: [],
        "is_ipc_supported": lambda self: False,
    }
    others = {name: lambda self, *_, **__: None for name in base.__abstractmethods__ if name not in answers}
    manager.set_platform(type("CpuPlatform", (base,), {**others, **answers})())
    os.environ["VERL_ENGINE_DEVICE"] = "cuda"  # under which its FSDP engine is registered


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
    if given["is_cpu"]:
        actor.fsdp_config.model_dtype = "fp32"
    return config


def played(config: Any, folder: Path) -> Any:
    """A batch as veRL's trainer has it before the update, with advantages."""
    loader: Any = import_module("verl.utils.import_utils").load_class_from_fqn
    manager = loader("rollouthub.trainers.verl.HubAgentLoopManager", "AgentLoopManager").create(
        config=config, llm_client=None
    )
    rows = rows_of_tasks(folder, TASKS, str(BABBLING), "test")
    batch = prompts_batch(import_module, rows, SAMPLES)
    batch = batch.union(manager.generate_sequences(batch))
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
    torch: Any = import_module("torch")
    if given["is_cpu"]:
        use_cpu()
    alone()
    folder = Path(given["directory"])
    folder.mkdir(parents=True, exist_ok=True)
    config = configured(given, folder)
    began = time.perf_counter()
    batch = played(config, folder)
    rollouts = time.perf_counter() - began
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
        "rewards": [float(value) for value in batch.batch["rm_scores"].sum(-1)],
        "moved": max(moved.values()),
        "is_finite": all(map(math.isfinite, moved.values())) and bool(torch.isfinite(torch.tensor(found["loss"]))),
        "grad_norm": found["grad_norm"],
        "kl": found.get("actor/ppo_kl", found.get("ppo_kl", math.nan)),
        "names": sorted(found),
    }


def _whole(parameter: Any) -> Any:
    tensor = parameter.detach()
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _number(value: Any) -> float:
    values = [float(each) for each in value] if isinstance(value, list | tuple) else [float(value)]
    return sum(values) / len(values)


if __name__ == "__main__":
    answer(step)
