"""A loop that learns, on a CPU: TRL's GRPO, the hub's episodes, and a policy served over HTTP.

python examples/learning/train.py                         # about a minute; needs `trl` and a CPU build of torch

TRL asks for rollouts. The hub plays them in an environment that has a process of its own, through its MCP endpoint,
asks the policy over HTTP for token ids and log-probabilities, and has the environment's verifier score them. The policy
server answers with the weights that TRL is moving.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from policy import tiny_model, tiny_tokenizer

from rollouthub.trainers.policy.policy_server import serve_policy
from rollouthub.trainers.stream import RolloutWorker, blocking_worker, rollout_worker
from rollouthub.trainers.trl import hub_reward, prompts_of, rollout_func

GROUPS = 3
"""Number of tasks per step: one of each colour, since the data set cycles through the colours unshuffled."""
GROUP_SIZE = 24
"""Samples of each task. An untrained policy's first move is a look once in 26 times: most groups of 24 contain one."""
ENTROPY = 0.02
"""Weight of the entropy bonus in the loss, which keeps the policy from settling on one key too early."""


@asynccontextmanager
async def playing(model: Any, tokenizer: Any, directory: Path, seed: int) -> AsyncGenerator[RolloutWorker]:
    """The policy served over HTTP, and a worker that plays episodes with it."""
    async with (
        serve_policy(model, tokenizer) as url,
        rollout_worker(
            environments=(str(Path(__file__).parent / "lamp.py"),),
            served=True,
            model="hosted_vllm/policy",
            base_url=url,
            directory=directory,
            concurrency=GROUPS * GROUP_SIZE,
            seed=seed,
            track=(),
        ) as worker,
    ):
        yield worker


def grpo_config(trl: Any, directory: Path, *, seed: int, steps: int) -> Any:
    """TRL's settings on a CPU, the same for every server of the policy."""
    return trl.GRPOConfig(
        output_dir=str(directory / "trl"),
        per_device_train_batch_size=GROUPS * GROUP_SIZE,
        num_generations=GROUP_SIZE,
        max_steps=steps,
        learning_rate=3e-3,
        lr_scheduler_type="constant",
        beta=0.0,
        entropy_coef=ENTROPY,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        shuffle_dataset=False,
        seed=seed,
    )


def learn(directory: Path, *, seed: int = 0, steps: int = 60) -> list[dict[str, float]]:
    """Train; returns the mean reward of each step, and the seconds from the start to the end of each step."""
    torch: Any = import_module("torch")
    trl: Any = import_module("trl")
    transformers: Any = import_module("transformers")
    torch.set_num_threads(1)
    transformers.set_seed(seed)
    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer)
    config = grpo_config(trl, directory, seed=seed, steps=steps)
    with blocking_worker(playing(model, tokenizer, directory / "run", seed)) as worker:
        trainer = trl.GRPOTrainer(
            model=model,
            reward_funcs=hub_reward,
            args=config,
            train_dataset=prompts_of(worker),
            processing_class=tokenizer,
            rollout_func=rollout_func(worker, name="lamp", moves_weights=True),
        )
        trainer.train()
    logged = [step for step in trainer.state.log_history if "reward" in step]
    seconds = accumulate(step["step_time"] for step in logged)
    return [
        {"step": step["step"], "reward": step["reward"], "seconds": passed}
        for step, passed in zip(logged, seconds, strict=True)
    ]


def main() -> None:
    """Train once, and print the curve as a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--curve", type=Path, default=None, help="where to write the curve as JSON")
    given = parser.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="learning-"))
    points = learn(directory, seed=given.seed, steps=given.steps)
    if given.curve is not None:
        given.curve.write_text(json.dumps(points))
    for point in points:
        bar = "#" * round(40 * point["reward"])
        sys.stdout.write(f"step {point['step']:4d}  {point['seconds']:6.1f} s  {point['reward']:.3f}  {bar}\n")


if __name__ == "__main__":
    main()
