"""TRL's asynchronous trainer: a few of its own steps on the hub's rollouts, its weights brought to the server."""

from tests.gpu.lab import Lab
from tests.gpu.rows import Row, at_least, at_most, measured

STEPS = 3
TOKENS = 24
RATIO = 0.05
"""Bar of how far the mean probability ratio of the first step is from 1: trainer and engine have the same weights."""


async def measure(lab: Lab) -> None:
    """Train the model made here for a few steps."""
    lab.needs("torch", "transformers", "trl", "datasets")
    served = await lab.serve_made()
    given = {
        "url": served.url,
        "name": served.name,
        "folder": str(served.folder),
        "directory": str(lab.runs / "trl"),
        "sampling": lab.sampling(tokens=TOKENS),
        "steps": STEPS,
        "is_cpu": lab.is_cpu,
    }
    try:
        found = await lab.cell("trl_async_cell", given)
    finally:
        await lab.engines.end()  # it has other weights now
    note = f"attention: {found['attention']}; rewards {' '.join(f'{reward:.3f}' for reward in found['rewards'])}"
    lab.add(at_least(lab.part, "steps of AsyncGRPOTrainer", found["steps"], STEPS, note=note))
    lab.add(measured(lab.part, "seconds a step, rollouts and weights included", found["seconds"] / STEPS, "s"))
    lab.add(
        measured(lab.part, "weights to the server", found["transfer_seconds"], "s", note=f"{found['transfers']} times")
    )
    ratio = abs(found["ratio"] - 1)
    lab.add(at_most(lab.part, "mean ratio of the first step, apart from 1", ratio, RATIO))
    is_sound = found["moved"] > 0 and found["is_finite"]
    lab.add(Row(lab.part, "weights moved by", "passed" if is_sound else "missed", found["moved"], bar="> 0, finite"))
