"""The learner end to end on a real task: the mean reward of its first and its last steps, and held-out tasks."""

from collections.abc import Mapping, Sequence
from statistics import mean

from tests.gpu.lab import Lab
from tests.gpu.rows import PartError, Row, at_least, at_most, measured

NAME = "policy"
"""As the example names the model that it plays with."""
CONTEXT = 512
ENDS = 5
"""Steps at either end of the curve."""
RISE = 0.05
"""Bar of the difference between the mean rewards of the last and of the first steps."""
MISMATCH = 0.01
"""Bar of the KL divergence between engine and learner, in nats: on equal weights it is rounding."""
HELD_OUT_SECONDS = 30.0
"""For the held-out tasks, before and after, on a GPU."""


async def measure(lab: Lab) -> None:
    """Warm a policy up, serve it, and let it learn."""
    lab.needs("torch", "transformers", "safetensors")
    folder = lab.runs / "learn"
    begun = await lab.cell("learning_cell", {"do": "begin", "folder": str(folder)})
    # As the learner computes; a GPU's attention wants fewer bits.
    exact = ("--dtype", "float32") if lab.is_cpu and lab.engines.engine == "vllm" else ()
    served = await lab.serve(NAME, folder / "start", *exact, context=CONTEXT)
    seconds = min(lab.amounts.learning_seconds, lab.left_seconds - 2 * HELD_OUT_SECONDS * lab.amounts.patience)
    if seconds <= 0:
        raise PartError("the time was over when the server was up")
    given = {
        "do": "learn",
        "folder": str(folder),
        "url": served.url,
        "name": served.name,
        "steps": lab.amounts.learning_steps,
        "seconds": seconds,
    }
    found = await lab.cell("learning_cell", given)
    curve: Sequence[Mapping[str, float]] = found["curve"]
    rewards = [point["reward"] for point in curve]
    lab.facts["curve"] = " ".join(f"{reward:.2f}" for reward in rewards)
    took = curve[-1]["since"] / len(curve) if curve else 0.0
    note = f"{len(curve)} steps of 128 rollouts; {begun['shown']:,} reference solutions were shown before"
    if len(curve) < 2 * ENDS:
        lab.add(Row(lab.part, "reward's rise", "failed", note=f"the curve is too short: {note}"))
        return
    first, last = mean(rewards[:ENDS]), mean(rewards[-ENDS:])
    lab.add(measured(lab.part, f"mean reward, first {ENDS} steps", first, note=note))
    lab.add(measured(lab.part, f"mean reward, last {ENDS} steps", last))
    lab.add(at_least(lab.part, "reward's rise", last - first, RISE))
    lab.add(measured(lab.part, "pass@1 on held-out tasks, before", found["before"], note=f"{found['held_out']} tasks"))
    lab.add(measured(lab.part, "pass@1 on held-out tasks, after", found["after"]))
    lab.add(measured(lab.part, "a step, rollouts and weights included", took, "s"))
    mismatch = [point["mismatch"] for point in curve if "mismatch" in point]
    lab.add(at_most(lab.part, "engine from learner, mean", mean(mismatch), MISMATCH, "nats"))
