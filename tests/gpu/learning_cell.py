"""The learner end to end, as examples/learning/calculator.py has it, but that a server of this benchmark's samples.

`begin` makes the policy: a tiny random model that reference solutions of training tasks were shown until it solves some
of them. `learn` plays `arithmetic` with the server, learns, and has the server load the new weights after each step.
"""

import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

from rollouthub.trainers.learn import CheckpointTransfer, Learner, LearnSettings, Ranks, train
from rollouthub.trainers.learn.learn_row import LearnRow
from rollouthub.trainers.learn.model_loading import prepared
from rollouthub.trainers.stream import VllmControl
from tests.gpu.cells import Given, answer
from tests.gpu.programs import ROOT

EXAMPLES = ROOT / "examples" / "learning"
WARMING = LearnSettings(normalize="tokens", learning_rate=3e-3, warmup_steps=10, update_rows=32)
READY = 0.25
"""How probable an unseen reference solution is when the warm start ends: more than in the example, for a curve of fewer
steps.
"""
ANSWER_TOKENS = 48
MOST_TURNS = 4


def _example() -> Any:
    sys.path.insert(0, str(EXAMPLES))
    return import_module("calculator")


async def begin(given: Given) -> dict[str, Any]:
    """Write the policy that learning begins with to `start`, and its untrained weights beside it."""
    example, folder = _example(), Path(given["folder"])
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    examples = await example.reference_solutions(folder / "reference")
    tokenizer = example.trained_tokenizer([example.written(messages, tools) for messages, tools in examples[:200]])
    model = prepared(example.random_model(tokenizer, 0, is_tied=False), Ranks())
    learner = Learner(model, WARMING, tokenizer=tokenizer)
    rows = list[LearnRow]()
    for messages, tools in examples:
        ids, mask = example.imitated(tokenizer, messages, tools)
        rows.append(LearnRow(ids, mask, [0.0] * len(ids)))
    example.READY = READY
    shown = example.warm_start(learner, rows)
    learner.save(folder / "start")
    return {"shown": shown}


async def learn(given: Given) -> dict[str, Any]:
    """Learn for so many steps or seconds, and measure on tasks that were never trained on, before and after."""
    example, folder = _example(), Path(given["folder"])
    transformers: Any = import_module("transformers")
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    start = folder / "start"
    tokenizer = transformers.AutoTokenizer.from_pretrained(start)
    model = prepared(transformers.AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32), Ranks())
    settings = LearnSettings.variant("grpo", **example.LEARNING)
    learner = Learner(model, WARMING, tokenizer=tokenizer)
    learner.restore(start)
    learner.begin_stage(settings, keeps_moments=True)
    url, control, curve = given["url"], VllmControl(given["url"]), list[dict[str, float]]()
    tasks = example.held_out()
    before = await example.pass_rate(url, folder / "pass-before", tasks)
    began = time.perf_counter()

    def on_step(step: int, figures: Mapping[str, float]) -> None:
        curve.append({**figures, "step": step, "since": time.perf_counter() - began})

    with anyio.move_on_after(given["seconds"]):
        await train(
            learner,
            directory=folder,
            steps=given["steps"],
            transfer=CheckpointTransfer(folder / "weights", control.reload_weights, control),
            on_step=on_step,
            environments=("arithmetic",),
            split="train",
            model=f"hosted_vllm/{given['name']}",
            base_url=url,
            set=example.SUMS,
            batch=example.TASKS,
            repeats=example.SAMPLES,
            max_staleness=0,
            sampling={"temperature": 1.0, "max_tokens": ANSWER_TOKENS},
            limits={"max_turns": MOST_TURNS},
            concurrency=example.TASKS * example.SAMPLES,
            seed=0,
        )
    await control.resume()  # where time was over in the middle of an update
    after = await example.pass_rate(url, folder / "pass-after", tasks)
    return {"before": before, "after": after, "held_out": len(tasks), "curve": curve}


async def cell(given: Given) -> dict[str, Any]:
    """What is asked for."""
    return await {"begin": begin, "learn": learn}[given["do"]](given)


if __name__ == "__main__":
    answer(cell)
