"""The loop of calculator.py with TRL's `GRPOTrainer` as the learner; a vLLM of yours may serve the policy.

python examples/learning/with_trl.py -o runs/calculator-trl
python examples/learning/with_trl.py -o runs/calculator-vllm --prepare      # writes the policy to its folder `start`
VLLM_SERVER_DEV_MODE=1 vllm serve runs/calculator-vllm/start --served-model-name policy --dtype float32 \\
    --max-model-len 512 --enforce-eager --enable-auto-tool-choice --tool-call-parser hermes
python examples/learning/with_trl.py -o runs/calculator-vllm --base-url http://127.0.0.1:8000/v1

Before TRL's rollouts of a step its weights are saved, and every server loads them, forgets its prefixes and is told
their version. TRL uses the sampler's log-probabilities with `use_vllm=True` alone, so its loss takes what was sampled
as the trainer's own: both compute in float32 here, and `apart` says how far apart they are.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import start_blocking_portal

sys.path.insert(0, str(Path(__file__).parent))

import calculator
from calculator import LEARNING, SAMPLES, SUMS, TASKS

from rollouthub.models.address import normal_base_url
from rollouthub.trainers import learn as learning  # torch is imported where a part of it that needs it is named
from rollouthub.trainers.cpu_memory import keep_freed_memory
from rollouthub.trainers.learn import LearnSettings
from rollouthub.trainers.stream import VllmControl, blocking_worker, rollout_worker
from rollouthub.trainers.trl import hub_reward, prompts_of, rollout_func


def grpo_config(trl: Any, folder: Path, *, seed: int, steps: int) -> Any:
    """TRL's settings on a CPU, those of calculator.py: two optimizer steps a batch."""
    return trl.GRPOConfig(
        output_dir=str(folder / "trl"),
        per_device_train_batch_size=LEARNING["update_rows"],
        steps_per_generation=TASKS * SAMPLES // LEARNING["update_rows"],
        num_generations=SAMPLES,
        max_steps=steps * TASKS * SAMPLES // LEARNING["update_rows"],
        learning_rate=LEARNING["learning_rate"],
        lr_scheduler_type="linear",
        beta=LEARNING["kl"],
        entropy_coef=LEARNING["entropy"],
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        seed=seed,
    )


class Exchange:
    """Plays TRL's batches with TRL's newest weights, and records each step."""

    def __init__(
        self, control: VllmControl, play: Callable[[list[Any], Any], dict[str, list[Any]]], folder: Path
    ) -> None:
        self.steps: list[dict[str, float]] = []
        self._control, self._play, self._folder = control, play, folder

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        """The function for TRL's `rollout_func`."""
        began = time.monotonic()
        self.bring(trainer)
        brought = time.monotonic()
        rows = self._play(prompts, trainer)  # stamps the same version on every turn
        rewards = [reward for reward in rows["reward"] if reward is not None]
        self.steps.append(
            {
                "step": len(self.steps) + 1,
                "reward": sum(rewards) / len(rewards),
                "apart": most_apart(trainer.accelerator.unwrap_model(trainer.model), rows),
                "rows": sum(rows["row_count"]),
                "weights_seconds": brought - began,
                "rollouts_seconds": time.monotonic() - brought,
            }
        )
        calculator.say_step(self.steps[-1]["step"], self.steps[-1]["reward"])
        return rows

    def bring(self, trainer: Any) -> None:
        """Have every server load the trainer's weights; it need not be paused, for TRL asks for nothing meanwhile."""
        trainer.accelerator.unwrap_model(trainer.model).save_pretrained(self._folder)
        anyio.run(self._control.reload_weights, str(self._folder.absolute()))
        anyio.run(self._control.updated, trainer.state.global_step)


def most_apart(model: Any, rows: Mapping[str, Sequence[Any]]) -> float:
    """Largest difference, in nats, between the trainer's log-probability of a sampled token and the recorded one."""
    torch: Any = import_module("torch")
    ids = [[*prompt, *said] for prompt, said in zip(rows["prompt_ids"], rows["completion_ids"], strict=True)]
    length = max(map(len, ids))
    padded = torch.tensor([[*row, *[0] * (length - len(row))] for row in ids])  # to the right, where nothing looks
    with torch.no_grad():
        found = model(input_ids=padded).logits[:, :-1].float().log_softmax(-1)
    found = found.gather(-1, padded[:, 1:, None])[..., 0].tolist()
    return max(
        abs(ours[len(prompt) - 1 + place] - theirs)
        for ours, prompt, logprobs, mask in zip(
            found, rows["prompt_ids"], rows["logprobs"], rows["env_mask"], strict=True
        )
        for place, (theirs, is_sampled) in enumerate(zip(logprobs, mask, strict=True))
        if is_sampled
    )


@contextmanager
def policy_at(url: str | None, start: Path) -> Generator[str]:
    """The base URL of the policy's servers: those at `url`, or one in a process of its own, which ends with this."""
    if url is not None:
        yield url
        return
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(calculator.serving(start)) as own:
        yield own


def learn(folder: Path, *, url: str | None, seed: int, steps: int) -> dict[str, Any]:
    """Train once; returns the pass rates and the figures of each step."""
    torch: Any = import_module("torch")
    trl: Any = import_module("trl")
    transformers: Any = import_module("transformers")
    torch.set_num_threads(1)
    keep_freed_memory()
    transformers.utils.logging.disable_progress_bar()
    learner, start = prepared(folder, seed), folder / "start"
    model: Any = learner.model
    model.config._name_or_path = str(start)  # TRL's reference for the KL divergence is what lies there
    tasks, config = calculator.held_out(), grpo_config(trl, folder, seed=seed, steps=steps)
    with policy_at(url, start) as base_url:
        control = VllmControl(base_url)
        anyio.run(control.reload_weights, str(start.absolute()))
        before = anyio.run(calculator.pass_rate, base_url, folder / "pass-before", tasks)
        calculator.say(f"pass@1 on {len(tasks)} held-out tasks: before {before:.3f}")
        opening = rollout_worker(
            environments=("arithmetic",),
            served=True,
            split="train",
            model="hosted_vllm/policy",
            base_url=base_url,
            directory=folder / "rollouts",
            set=SUMS,
            sampling=calculator.TRAINED_AT,
            limits={"max_turns": 4},
            concurrency=TASKS * SAMPLES,
            seed=seed,
            track=(),
        )
        with blocking_worker(opening) as worker:
            exchange = Exchange(control, rollout_func(worker, name="sums", moves_weights=True), folder / "weights")
            trainer = trl.GRPOTrainer(
                model=model,
                reward_funcs=hub_reward,
                args=config,
                train_dataset=prompts_of(worker),
                processing_class=learner.tokenizer,
                rollout_func=exchange,
                optimizers=(learner.optimizer, None),
            )
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
        exchange.bring(trainer)
        after = anyio.run(calculator.pass_rate, base_url, folder / "pass-after", tasks)
        versions = anyio.run(control.versions)
    calculator.say(f"pass@1 on {len(tasks)} held-out tasks: after {after:.3f}")
    return {"before": before, "after": after, "version": versions[0], "curve": exchange.steps}


def prepared(folder: Path, seed: int) -> "learning.Learner":
    """The policy that learning begins with and its optimizer, as `folder/start` has them; made if they are not there.

    The optimizer goes on with its moments: the rough first steps of a new one cost a model this small what it knows.
    """
    learner = anyio.run(lambda: calculator.warmed(folder, seed, is_tied=False))
    learner.begin_stage(LearnSettings.variant("grpo", **LEARNING), keeps_moments=True)
    for group in learner.optimizer.param_groups:
        group["lr"] = LEARNING["learning_rate"]
    return learner


def main() -> None:
    """Train once, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--directory", type=Path, default=Path("runs/calculator-trl"))
    parser.add_argument("--base-url", help="of a vLLM in development mode that serves the policy of --prepare")
    parser.add_argument("--prepare", action="store_true", help="write the policy to DIRECTORY/start, and do no more")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--figures", type=Path, help="where to write the figures as JSON")
    given = parser.parse_args()
    calculator.check_options(parser, given.steps, given.seed, given.figures)
    with calculator.errors_told(parser, given.directory):
        if given.prepare:
            prepared(given.directory, given.seed)
            calculator.say(f"the policy is in {given.directory / 'start'}")
            return
        url = None if given.base_url is None else normal_base_url(given.base_url)
        found = learn(given.directory, url=url, seed=given.seed, steps=given.steps)
    if given.figures is not None:
        given.figures.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
