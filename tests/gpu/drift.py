"""Token drift: the engine's log-probabilities of what it sampled against the trainer's, teacher-forced, and the ids."""

from tests.gpu.engines import Served
from tests.gpu.lab import Lab
from tests.gpu.rows import at_least, at_most

MEAN, MOST = 0.02, 0.25
"""Bars of the difference in the log-probability of a token, in nats: an engine that computes in bfloat16 rounds each
layer's sums at another place than the trainer.
"""
TOKENS = 24
"""Of an answer."""


async def measure(lab: Lab) -> None:
    """With the model made here."""
    lab.needs("torch", "transformers")
    await _compare(lab, await lab.serve_made(), "")


async def measure_given(lab: Lab) -> None:
    """With the small trained model, which is surer of what it says."""
    lab.needs("torch", "transformers")
    await _compare(lab, await lab.serve_given(), ", the given model")


async def _compare(lab: Lab, served: Served, which: str) -> None:
    given = {
        "url": served.url,
        "name": served.name,
        "folder": str(served.folder),
        "directory": str(lab.runs / f"drift-{served.name}"),
        "rollouts": lab.amounts.drift_rollouts,
        "sampling": lab.sampling(tokens=TOKENS),
    }
    found = await lab.cell("drift_cell", given)
    played = f"{found['rollouts']} rollouts, {found['tokens']:,} sampled tokens, {found['rows']} rows"
    lab.add(at_least(lab.part, f"prompts with the trainer's ids{which}", found["prompts"], 100, "%", note=played))
    lab.add(at_least(lab.part, f"sampled ids as they were in the rows{which}", found["answers"], 100, "%"))
    for dtype in ("float32", "bfloat16"):
        of = f"log-probability apart, trainer in {dtype}{which}"
        lab.add(at_most(lab.part, f"{of}, mean", found[dtype]["mean"], MEAN, "nats"))
        lab.add(at_most(lab.part, f"{of}, most", found[dtype]["most"], MOST, "nats"))
