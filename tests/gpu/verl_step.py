"""One step of veRL: its worker's update on a batch that the hub played, and, on a GPU, its whole trainer."""

import math
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec

import anyio

from tests.gpu import verl_main
from tests.gpu.lab import Lab
from tests.gpu.programs import ROOT, last_words, running
from tests.gpu.rows import PartError, Row, at_least, at_most, measured

TOKENS = 24
APART = 0.005
"""Bar of the mean difference between the engine's and veRL's log-probabilities, in nats, before the update."""


async def measure(lab: Lab) -> None:
    """Update an actor with the weights of the model made here, once."""
    lab.needs("torch", "transformers", "verl", "hydra", "tensordict")
    served = await lab.serve_made()
    given = {
        "url": served.url,
        "name": served.name,
        "folder": str(served.folder),
        "directory": str(lab.runs / "verl"),
        "sampling": lab.sampling(tokens=TOKENS),
        "is_cpu": lab.is_cpu,
        "is_stand_in": lab.engines.engine != "vllm",
    }
    found = await lab.cell("verl_step_cell", given)
    rewards = found["rewards"]
    note = f"rewards from {min(rewards):.3f} to {max(rewards):.3f}"
    lab.add(at_least(lab.part, "rows of the batch", found["rows"], 16, note=note))
    lab.add(at_most(lab.part, "engine from veRL, before the update", abs(found["kl"]), APART, "nats"))
    lab.add(measured(lab.part, "the update", found["seconds"], "s", note=f"gradient's norm {found['grad_norm']:.3g}"))
    is_sound = found["moved"] > 0 and found["is_finite"] and math.isfinite(found["grad_norm"])
    lab.add(Row(lab.part, "weights moved by", "passed" if is_sound else "missed", found["moved"], bar="> 0, finite"))
    await _whole_trainer(lab, given)


async def _whole_trainer(lab: Lab, given: Mapping[str, object]) -> None:
    """`main_ppo`, whole, for one step; it starts a vLLM of its own."""
    words = (await lab.cell("verl_main", {**given, "directory": str(lab.runs / "verl-main")}))["overrides"]
    lab.add(Row(lab.part, "main_ppo's configuration is composed", "passed", len(words), "overrides"))
    if lab.is_cpu or find_spec("vllm") is None:
        why = "no GPU" if lab.is_cpu else "vLLM is not installed beside veRL"
        lab.not_tried("main_ppo, one step", f"{why}: it starts vLLM in its own process")
        return
    await lab.engines.end()  # for its memory
    log = lab.folder / "verl-main.log"
    began = anyio.current_time()
    with log.open("wb") as said:
        command = [sys.executable, "-m", verl_main.MODULE, *words]
        async with running(command, said, stdout=said, environment=os.environ, directory=ROOT) as process:
            code = await process.wait()
    if code:
        raise PartError(f"main_ppo ended with {code}: {last_words(log)}")
    figures = verl_main.figures_in(log.read_text(errors="replace"))
    norm = figures.get("actor/grad_norm", math.nan)
    note = f"reward {figures.get('critic/rewards/mean', math.nan):.3f}, gradient's norm {norm:.3g}"
    is_sound = norm > 0
    seconds = anyio.current_time() - began
    lab.add(Row(lab.part, "main_ppo, one step", "passed" if is_sound else "missed", seconds, "s", "> 0 gradient", note))
