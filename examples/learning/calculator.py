"""A policy that learns to use a calculator, whole on a CPU in minutes: `rollouthub.trainers.learn` on `arithmetic`.

python examples/learning/calculator.py -o runs/calculator

The reference solutions of training tasks teach a tiny random model how calls look, until it solves some one task in
fifteen at temperature 1. Then it plays: the hub runs episodes over MCP, a policy server in a process of its own
samples, the verifier scores, the learner takes its steps, and the server loads the new weights. Tasks that were never
trained on measure it before and after, beside the untrained model. Given again, the command goes on with what was
interrupted.
"""

import argparse
import json
import math
import resource
import sys
import time
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parent))

from calculator_policy import imitated, random_model, trained_tokenizer, written

import rollouthub
from rollouthub.errors import HubError, UsageError
from rollouthub.event_loop import run_async
from rollouthub.export.conversation import chat_message, longest_chain, messages_of
from rollouthub.hosting.local.toolbox import LOOP_TOOLS
from rollouthub.models.tokens.hf_chat import template_tool
from rollouthub.plugins.extras import missing_module
from rollouthub.processes import PYTHON, guarded
from rollouthub.store import open_run
from rollouthub.trainers import learn as learning  # torch is imported where a part of it that needs it is named
from rollouthub.trainers.cpu_memory import keep_freed_memory
from rollouthub.trainers.learn import VARIANTS, LearnSettings
from rollouthub.trainers.learn.learn_row import LearnRow
from rollouthub.trainers.stream import VllmControl
from rollouthub_servers.arithmetic import Arithmetic, ArithmeticConfig

SUMS: dict[str, Any] = {"size": 1_500, "terms": 3, "digits": 1, "operators": "+-"}
"""The settings of `arithmetic`."""
SHOWN = 700
"""Reference solutions that the warm start may see: the first of the training tasks."""
READY = 0.02
"""The warm start ends when an unseen reference solution is this probable."""
KEPT_BACK, PART = 64, 16
"""Reference solutions that measure the warm start, and those that it imitates between two measurements."""
HELD_OUT = 200
TASKS, SAMPLES = 16, 8
"""The tasks of a step, and the samples of each."""
STEPS = 112
FEWER_STEPS: Mapping[str, int] = {"dapo": 60}
"""Of a variant that plays on until none of a step's groups is all alike."""
LEARNING: dict[str, Any] = {
    "normalize": "tokens",
    "learning_rate": 1.2e-3,
    "update_rows": TASKS * SAMPLES // 2,
    "entropy": 0.008,  # or it settles on one of 1 and 11, which look alike to it, and never tries the other again
    "kl": 0.04,  # without one that costs, a model this small may forget how calls look before it gains
    "proximal": "sampler",  # the weights that sampled are those that learn: max_staleness is 0
    "max_tokens": 48,
    "micro_batch_tokens": 2_048,  # what passes through the model together stays in a core's cache
}
"""What every variant is given."""
OWN: Mapping[str, Mapping[str, Any]] = {
    "dr_grpo": {"normalize": "constant", "entropy": 0.003},
    "rloo": {"entropy": 0.003},
}
"""What a variant has otherwise: Dr. GRPO is about its normalisation; advantages that are not divided by their deviation
are a third as large, and so is the entropy bonus beside them.
"""
TRAINED_AT: dict[str, Any] = {"temperature": 1.0, "max_tokens": 48}
MEASURED_AT: dict[str, Any] = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 48}
"""The sampling of each pass@1, before and after alike: that of DeepSeek-R1's and DeepScaleR's evaluations."""


def prompts(split: str) -> Iterator[tuple[str, str]]:
    """The id and the prompt of each task of a split."""
    for task in Arithmetic.tasks(ArithmeticConfig(**SUMS), split, 0):
        assert isinstance(task.public.prompt, str)
        yield task.public.id, task.public.prompt


def held_out() -> list[str]:
    """The ids of test tasks whose sums no training task has."""
    trained = {prompt for _, prompt in prompts("train")}
    return list(islice((name for name, prompt in prompts("test") if prompt not in trained), HELD_OUT))


async def reference_solutions(folder: Path) -> list[tuple[list[Any], list[Any]]]:
    """The messages and the tools of each reference solution, as the oracle plays it over MCP."""
    if not (folder / "run.db").exists():
        await rollouthub.aevaluate(
            "arithmetic", split="train", limit=SHOWN, seed=0, set=SUMS, directory=folder, progress=False
        )
    found: list[tuple[list[Any], list[Any]]] = []
    with open_run(folder) as run:
        for rollout in run.rollouts():
            assert rollout.tools_digest is not None
            tools = [template_tool(tool) for tool in run.tools(rollout.tools_digest) if tool.name not in LOOP_TOOLS]
            found.append(([chat_message(message) for message in messages_of(longest_chain(rollout))], tools))
    return found


def warm_start(learner: "learning.Learner", rows: Sequence[LearnRow]) -> int:
    """Imitate reference solutions until one that is kept back is probable enough; returns how many were imitated.

    Raises:
        RuntimeError: it never is.
    """
    kept, shown = rows[:KEPT_BACK], rows[KEPT_BACK:]
    for imitated_rows in range(PART, 12_001, PART):
        learner.imitate([shown[place % len(shown)] for place in range(imitated_rows - PART, imitated_rows)])
        said = [math.exp(sum(logprobs)) for logprobs in learner.logprobs(kept)]
        if sum(said) / len(said) > READY:
            return imitated_rows
    raise RuntimeError("the reference solutions were not learnt")


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[str]:
    """A policy server in a process of its own, which ends with this one; yields its base URL."""
    command = guarded([*PYTHON, "-m", "rollouthub.trainers.policy", str(folder)], grace_seconds=2.0)
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdout is not None
        try:
            line = b""
            while not line.endswith(b"\n"):
                line += await process.stdout.receive()
            yield line.decode().strip()
        finally:
            process.terminate()


async def pass_rate(url: str, folder: Path, tasks: Sequence[str]) -> float:
    """Pass@1 on held-out tasks, a sample each."""
    run = await rollouthub.aevaluate(
        "arithmetic",
        "hosted_vllm/policy",
        base_url=url,
        split="test",
        tasks=tuple(tasks),
        set=SUMS,
        seed=0,
        sampling=MEASURED_AT,
        limits={"max_turns": 4},
        concurrency=128,
        directory=folder,
        resume=(folder / "run.db").exists(),
        progress=False,
    )
    return float(run.pass_rate or 0.0)


def steps_of(variant: str) -> int:
    """The steps of a whole training."""
    return FEWER_STEPS.get(variant, STEPS)


async def warmed(folder: Path, seed: int, *, is_tied: bool = True) -> "learning.Learner":
    """A learner whose model knows how calls look, as `folder/start` has it; `folder/untrained` has it before that."""
    examples = await reference_solutions(folder / "reference")
    tokenizer = trained_tokenizer([written(messages, tools) for messages, tools in examples[:200]])
    model = random_model(tokenizer, seed, is_tied=is_tied)
    warming = LearnSettings(normalize="tokens", learning_rate=2e-3, warmup_steps=10, update_rows=32)
    learner = learning.Learner(model, warming, tokenizer=tokenizer)
    if not (folder / "start").exists():
        learner.save_weights(folder / "untrained")
        rows = [LearnRow(ids, mask, [0.0] * len(ids)) for ids, mask in _imitated(tokenizer, examples)]
        say(f"warm start: {warm_start(learner, rows)} reference solutions")
        learner.save(folder / "start")
    learner.restore(folder / "start")
    return learner


async def learn(folder: Path, *, seed: int, steps: int, variant: str) -> Mapping[str, Any]:
    """Train once; returns the pass rates and the curve."""
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    keep_freed_memory()
    import_module("transformers").utils.logging.disable_progress_bar()
    decay = 2 * steps_of(variant)  # two optimizer steps a batch
    settings = LearnSettings.variant(
        variant, **{**LEARNING, "decay_steps": decay, **OWN.get(variant, {}), "seed": seed}
    )
    learner = await warmed(folder, seed)
    warm_seconds = _cpu_seconds(resource.RUSAGE_SELF)  # imports and the reference solutions, too
    learner.begin_stage(settings, keeps_moments=True)
    tasks, start, base = held_out(), folder / "start", folder / "untrained"
    curve: list[dict[str, float]] = []

    def on_step(step: int, figures: Mapping[str, float]) -> None:
        curve.append({"step": step, **figures})
        say_step(step, figures["reward"])

    async with serving(start) as url:
        control = VllmControl(url)
        await control.reload_weights(str(base.absolute()))
        untrained = await pass_rate(url, folder / "pass-untrained", tasks)
        await control.reload_weights(str(start.absolute()))
        before = await pass_rate(url, folder / "pass-before", tasks)
        say(f"pass@1 on {len(tasks)} held-out tasks: untrained {untrained:.3f}, before {before:.3f}")
        await learning.train(
            learner,
            directory=folder,
            steps=steps,
            transfer=learning.CheckpointTransfer(folder / "weights", control.reload_weights, control),
            on_step=on_step,
            environments=("arithmetic",),
            split="train",
            model="hosted_vllm/policy",
            base_url=url,
            set=SUMS,
            batch=TASKS,
            max_staleness=0,
            repeats=SAMPLES,
            drop_constant=variant == "dapo",
            sampling=TRAINED_AT,
            limits={"max_turns": 4},
            concurrency=TASKS * SAMPLES,
            seed=seed,
        )
        after = await pass_rate(url, folder / "pass-after", tasks)
    say(f"pass@1 on {len(tasks)} held-out tasks: after {after:.3f}")
    own, server = (_cpu_seconds(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = {"warm_start": warm_seconds, "playing_and_learning": own - warm_seconds, "policy_server": server}
    say("CPU seconds: " + ", ".join(f"{name.replace('_', ' ')} {value:.1f}" for name, value in cpu.items()))
    return {"untrained": untrained, "before": before, "after": after, "curve": curve, "cpu_seconds": cpu}


def _imitated(tokenizer: Any, examples: Sequence[tuple[list[Any], list[Any]]]) -> Iterator[tuple[list[int], list[int]]]:
    for messages, tools in examples:
        yield imitated(tokenizer, messages, tools)


def _cpu_seconds(whose: int) -> float:
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def say_step(step: float, reward: float) -> None:
    """Print a step's mean reward, with a bar."""
    say(f"step {step:3.0f}  reward {reward:.3f}  {'#' * round(40 * reward)}")


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def own_folder(folder: Path) -> None:
    """Make the folder of a training, or take one of this example's.

    Raises:
        UsageError: it holds something else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()) and not (folder / "reference").is_dir():
        raise UsageError(f"{str(folder)!r} holds something else than a training of this example; name another with -o")


@contextmanager
def errors_told(parser: argparse.ArgumentParser, folder: Path) -> Generator[None]:
    """Train in a folder within this block: what goes wrong is told in a line, with exit 2 for wrong options."""
    try:
        own_folder(folder)
        yield
    except ModuleNotFoundError as error:
        parser.error(missing_module(error))
    except OSError as error:
        parser.error(f"{folder} cannot be written: {error.strerror or error}; name another with -o")
    except UsageError as error:
        parser.error(str(error))
    except HubError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


def check_options(parser: argparse.ArgumentParser, steps: int, seed: int, figures: Path | None) -> None:
    """End with exit 2 where these cannot be used; of the figures' file that is told before hours of training."""
    if steps < 1 or not 0 <= seed < 2**32:
        parser.error(f"--steps {steps} --seed {seed}: at least one step, and a seed from 0 to {2**32 - 1:,}")
    if figures is not None and (figures.is_dir() or not figures.absolute().parent.is_dir()):
        parser.error(f"--figures {figures}: it is a folder, or there is no folder for it; name a file")


def main() -> None:
    """Train once, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--directory", type=Path, default=Path("runs/calculator"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variant", default="grpo", choices=sorted(VARIANTS))
    parser.add_argument("--steps", type=int, help=f"{STEPS} without it, {FEWER_STEPS['dapo']} for dapo")
    parser.add_argument("--figures", type=Path, help="where to write the figures as JSON")
    given = parser.parse_args()
    steps = steps_of(given.variant) if given.steps is None else given.steps
    check_options(parser, steps, given.seed, given.figures)
    began = time.monotonic()
    with errors_told(parser, given.directory):
        found = run_async(lambda: learn(given.directory, seed=given.seed, steps=steps, variant=given.variant))
    if given.figures is not None:
        given.figures.write_text(json.dumps({**found, "seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main()
