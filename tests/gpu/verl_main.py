"""The command line of veRL's own `main_ppo` for one step on one GPU, its rollouts played by the hub's manager."""

import math
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from rollouthub.trainers.verl import write_prompts
from tests.gpu.cells import Given, answer
from tests.gpu.trl_async_cell import BABBLING
from tests.trainers.verl_set_up import rows_of_tasks

TASKS, SAMPLES = 4, 4
PROMPT, RESPONSE = 512, 64
MODULE = "verl.trainer.main_ppo"
_FIGURE = re.compile(r"([\w/.@-]+):(?:np\.float\d+\()?(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\b")
_MOST_CHARACTERS = 20_000


def overrides(given: Given) -> list[str]:
    """What is set differently from veRL's defaults; the files that they name are written."""
    folder = Path(given["directory"])
    folder.mkdir(parents=True, exist_ok=True)
    rows = rows_of_tasks(folder, TASKS, str(BABBLING), "test")
    write_prompts(rows, str(folder / "tasks.parquet"))
    run: dict[str, Any] = {"environments": [str(BABBLING)], "training": {"directory": str(folder / "runs")}}
    entry = {"name": "rollouthub", "_target_": "rollouthub.trainers.verl.HubAgentLoop", "run": run}
    (folder / "agents.yaml").write_text(yaml.safe_dump([entry]))
    rollout = "actor_rollout_ref.rollout"
    return [
        "algorithm.adv_estimator=grpo",
        f"data.train_files={folder / 'tasks.parquet'}",
        f"data.val_files={folder / 'tasks.parquet'}",
        f"data.max_prompt_length={PROMPT}",
        f"data.max_response_length={RESPONSE}",
        f"data.train_batch_size={TASKS}",
        "data.dataloader_num_workers=0",
        f"actor_rollout_ref.model.path={given['folder']}",
        "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
        "actor_rollout_ref.model.use_remove_padding=False",
        "actor_rollout_ref.actor.strategy=fsdp2",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={TASKS}",
        f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={TASKS * SAMPLES}",
        f"{rollout}.name=vllm",
        f"{rollout}.n={SAMPLES}",
        f"{rollout}.gpu_memory_utilization=0.4",
        f"{rollout}.enforce_eager=True",
        f"{rollout}.calculate_log_probs=True",
        f"{rollout}.log_prob_micro_batch_size_per_gpu={TASKS * SAMPLES}",
        f"{rollout}.agent.agent_loop_config_path={folder / 'agents.yaml'}",
        f"+{rollout}.agent.agent_loop_manager_class=rollouthub.trainers.verl.HubAgentLoopManagerTQ",
        "trainer.v1.sampler.sync_refill_failed_groups=True",
        "trainer.total_training_steps=1",
        "trainer.n_gpus_per_node=1",
        "trainer.nnodes=1",
        "trainer.val_before_train=False",
        "trainer.logger=[console]",
        f"trainer.default_local_dir={folder / 'checkpoints'}",
    ]


def figures_in(said: str) -> dict[str, float]:
    """The figures of the last step that veRL's console logger wrote."""
    lines = [line for line in said.splitlines() if "step:1 - " in line]
    found = _FIGURE.findall(lines[-1][:_MOST_CHARACTERS]) if lines else []
    return {name: float(value) for name, value in found if math.isfinite(float(value))}


def composed(given: Given) -> dict[str, Any]:
    """Write the files, and have veRL's own code compose the configuration and make its typed parts."""
    words = overrides(given)
    hydra: Any = import_module("hydra")
    typed: Any = import_module("verl.utils.config").omega_conf_to_dataclass
    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        config = hydra.compose("ppo_trainer", overrides=words)
    for part in (config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout, config.algorithm):
        typed(part)
    return {"overrides": words}


if __name__ == "__main__":
    answer(composed)
