"""The loop of train.py with a live vLLM as the policy's server, whose weights are exchanged before every step.

python examples/learning/with_vllm.py --vllm ~/vllm/bin/vllm      # starts `vllm serve` on 127.0.0.1, and ends it
python examples/learning/with_vllm.py --prepare policy            # or: writes the policy down, for a server of yours
VLLM_SERVER_DEV_MODE=1 vllm serve policy --served-model-name policy --dtype float32 --max-model-len 256 \\
    --enforce-eager --enable-auto-tool-choice --tool-call-parser hermes
python examples/learning/with_vllm.py --base-url http://127.0.0.1:8000/v1

Before TRL's rollouts of a step, its weights are saved and every worker of vLLM loads them; then vLLM is told their
version and forgets its prefixes. TRL uses the sampler's log-probabilities with `use_vllm=True` alone, so its loss takes
what vLLM sampled as the trainer's own: both compute in float32 here, and `apart` says how far apart they are.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import aiohttp
import anyio
from anyio.abc import Process

sys.path.insert(0, str(Path(__file__).parent))

from policy import tiny_model, tiny_tokenizer
from train import GROUP_SIZE, GROUPS, grpo_config

from rollouthub.trainers.stream import RolloutWorker, VllmControl, blocking_worker, rollout_worker
from rollouthub.trainers.trl import hub_reward, prompts_of, rollout_func

HEAD_SIZE = 32
"""The smallest head size that vLLM's attention supports on a CPU."""
SERVE = (
    *("--served-model-name", "policy", "--host", "127.0.0.1", "--dtype", "float32", "--max-model-len", "256"),
    *("--max-num-seqs", "128", "--max-num-batched-tokens", "16384", "--enforce-eager"),
    *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
)
"""Options of `vllm serve`; batches are large, since a seeded request with a chunked prefill crashes vLLM's CPU
engine.
"""
SETTINGS = {
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


@dataclass(slots=True)
class Step:
    """The figures of a step, and the seconds of its parts."""

    step: int
    reward: float
    """Mean over the scored rollouts."""
    apart: float
    """Largest difference in the log-probability of a sampled token between vLLM and the trainer."""
    rows: int
    """Training rows of the step: more than rollouts if a prompt did not begin with the turns before it."""
    weights_seconds: float
    rollouts_seconds: float
    learning_seconds: float = 0.0


def policy_of(tokenizer: Any) -> Any:
    """The policy of policy.py as a Llama, since `transformers` treats any tokenizer of a Qwen 2 as byte-pair
    encoding.
    """
    transformers: Any = import_module("transformers")
    like = tiny_model(tokenizer).config
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=like.hidden_size,
        intermediate_size=like.intermediate_size,
        num_hidden_layers=like.num_hidden_layers,
        num_attention_heads=like.hidden_size // HEAD_SIZE,
        num_key_value_heads=1,
        max_position_embeddings=like.max_position_embeddings,
        tie_word_embeddings=False,
        initializer_range=like.initializer_range,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    model = transformers.LlamaForCausalLM(config)
    model.lm_head.weight.data.mul_(0.1)
    return model


@asynccontextmanager
async def serving(program: str, folder: Path, port: int, log: Path) -> AsyncGenerator[str]:
    """Run `vllm serve` with a policy until the block ends; yields its base URL. Its output goes to `log`."""
    environment = {**os.environ, **SETTINGS}
    # vLLM's own OpenMP, where its wheel has it: it warns and is slower without.
    if (openmp := Path(program).parents[1] / "lib" / "libiomp5.so").exists():
        environment["LD_PRELOAD"] = str(openmp)
    command = [program, "serve", str(folder), *SERVE, "--port", str(port)]
    root = f"http://127.0.0.1:{port}"
    with log.open("wb") as said:
        process = await anyio.open_process(
            command, env=environment, stdin=None, stdout=said, stderr=said, start_new_session=True
        )
        try:
            await _healthy(root, process, log)
            yield f"{root}/v1"
        finally:
            if process.returncode is None:
                process.terminate()
            with anyio.CancelScope(shield=True), anyio.move_on_after(30):
                await process.wait()
            if process.returncode is None:  # such as one that was still starting
                os.killpg(process.pid, signal.SIGKILL)


async def _healthy(root: str, process: Process, log: Path) -> None:
    async with aiohttp.ClientSession() as session:
        while process.returncode is None:
            try:
                async with session.get(f"{root}/health") as response:
                    if response.ok:
                        return
            except aiohttp.ClientError:
                pass
            await anyio.sleep(0.5)
    raise RuntimeError(f"vllm ended with {process.returncode}; its last words are in {log}")


@asynccontextmanager
async def playing(
    url: str | None, program: str, port: int, folder: Path, directory: Path, seed: int
) -> AsyncGenerator[RolloutWorker]:
    """A vLLM server (the one at `url`, or a new one), and a worker that plays episodes with it."""
    async with AsyncExitStack() as stack:
        if url is None:
            url = await stack.enter_async_context(serving(program, folder, port, directory / "vllm.log"))
        worker = await stack.enter_async_context(
            rollout_worker(
                environments=(str(Path(__file__).parent / "lamp.py"),),
                served=True,
                model="hosted_vllm/policy",
                base_url=url,
                directory=directory / "run",
                concurrency=GROUPS * GROUP_SIZE,
                seed=seed,
                track=(),
            )
        )
        yield worker


class Exchange:
    """Plays TRL's batches with TRL's current weights, and records times."""

    def __init__(self, control: VllmControl, play: Callable[[list[Any], Any], dict[str, list[Any]]], folder: Path):
        self.steps: list[Step] = []
        self._control, self._play, self._folder = control, play, folder
        self._since = time.monotonic()

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        """The function for TRL's `rollout_func`."""
        self.learnt()
        began = time.monotonic()
        model = trainer.accelerator.unwrap_model(trainer.model)
        model.save_pretrained(self._folder)
        anyio.run(self._update, trainer.state.global_step)
        served = time.monotonic()
        rows = self._play(prompts, trainer)  # stamps the same version on every turn
        played = time.monotonic()
        rewards = [reward for reward in rows["reward"] if reward is not None]
        self.steps.append(
            Step(
                step=trainer.state.global_step + 1,
                reward=sum(rewards) / len(rewards),
                apart=most_apart(model, rows),
                rows=sum(rows["row_count"]),
                weights_seconds=served - began,
                rollouts_seconds=played - served,
            )
        )
        self._since = time.monotonic()
        return rows

    def learnt(self) -> None:
        """Record that TRL has finished the training step on the last batch."""
        if self.steps:
            self.steps[-1].learning_seconds = time.monotonic() - self._since

    async def _update(self, version: int) -> None:
        # Nothing is asked of vLLM meanwhile, for TRL waits here: it need not be paused.
        await self._control.reload_weights(str(self._folder))
        await self._control.updated(version)


def most_apart(model: Any, rows: Mapping[str, Sequence[Any]]) -> float:
    """Largest difference between the trainer's log-probability of a sampled token and the recorded one."""
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


def learn(url: str | None, program: str, port: int, directory: Path, *, seed: int, steps: int) -> list[Step]:
    """Train; returns the figures of each step."""
    torch: Any = import_module("torch")
    trl: Any = import_module("trl")
    transformers: Any = import_module("transformers")
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    transformers.set_seed(seed)
    tokenizer = tiny_tokenizer()
    model = policy_of(tokenizer)
    folder = directory / "policy"
    prepare(model, tokenizer, folder)
    config = grpo_config(trl, directory, seed=seed, steps=steps)
    began = time.monotonic()
    with blocking_worker(playing(url, program, port, folder, directory, seed)) as worker:
        sys.stdout.write(f"began in {time.monotonic() - began:.1f} s\n")
        control = VllmControl(url or f"http://127.0.0.1:{port}/v1")
        exchange = Exchange(control, rollout_func(worker, name="lamp", moves_weights=True), directory / "weights")
        trl.GRPOTrainer(
            model=model,
            reward_funcs=hub_reward,
            args=config,
            train_dataset=prompts_of(worker),
            processing_class=tokenizer,
            rollout_func=exchange,
        ).train()
        exchange.learnt()
        (version,) = anyio.run(control.versions)
        sys.stdout.write(f"vLLM has the weights of version {version}\n")
    return exchange.steps


def prepare(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write the policy to a folder in the form that vLLM reads."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _leave(number: int, frame: FrameType | None) -> None:
    """Exit so that clean-up runs and vLLM does not outlive the script."""
    sys.exit(128 + number)


def main() -> None:
    """Train once, and print the figures of each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm", default="vllm", help="the program to start")
    parser.add_argument("--port", type=int, default=8711)
    parser.add_argument("--base-url", default=None, help="of a vLLM in development mode that runs already")
    parser.add_argument("--prepare", type=Path, default=None, help="write the policy down here, and do no more")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--curve", type=Path, default=None, help="where to write the steps as JSON")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _leave)
    if given.prepare is not None:
        tokenizer = tiny_tokenizer()
        prepare(policy_of(tokenizer), tokenizer, given.prepare)
        return
    directory: Path = given.directory or Path(tempfile.mkdtemp(prefix="learning-"))
    directory.mkdir(parents=True, exist_ok=True)
    steps = learn(given.base_url, given.vllm, given.port, directory, seed=given.seed, steps=given.steps)
    if given.curve is not None:
        given.curve.write_text(json.dumps([asdict(step) for step in steps]))
    for step in steps:
        sys.stdout.write(
            f"step {step.step:4d}  {step.reward:.3f}  apart {step.apart:.1e}  weights {step.weights_seconds:.2f} s  "
            f"rollouts {step.rollouts_seconds:.2f} s  learning {step.learning_seconds:.2f} s\n"
        )


if __name__ == "__main__":
    main()
