"""Rollouts and tokens a second through the hub, and of a bare asyncio loop at the same server; the GPU's load."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from rollouthub.trainers.stream import VllmControl
from tests.gpu.engines import Served
from tests.gpu.gpu_watch import gpu_load
from tests.gpu.lab import MADE, Lab
from tests.gpu.rows import at_least, at_most, measured

SHARE_PERCENT = 97.0
"""Of the bare loop's tokens a second, at least."""


async def measure(lab: Lab) -> None:
    """Load the model made here, and the one given, at each level."""
    served = await lab.serve_made()
    lab.add(measured(lab.part, "server up", served.start_seconds, "s", note=lab.facts["model"]))
    for level in lab.amounts.levels:
        await _compare(lab, served, level)


async def measure_given(lab: Lab) -> None:
    """The same with the small trained model."""
    served = await lab.serve_given()
    await _compare(lab, served, lab.amounts.levels[0])


async def _compare(lab: Lab, served: Served, level: int) -> None:
    where = f"{level:,} in flight" if served.name == MADE else f"{level:,} in flight, the given model"
    found: dict[str, list[Mapping[str, Any]]] = {"loop": [], "hub": []}
    loads: dict[str, list[float]] = {"loop": [], "hub": []}
    for repetition in range(lab.amounts.repetitions):
        for by in ("hub", "loop") if repetition % 2 else ("loop", "hub"):  # what drifts is for neither
            await _forget(served)
            async with gpu_load() as load:
                found[by].append(await lab.cell("load_cell", _asked(lab, served, level, by)))
            if load.mean is not None:
                loads[by].append(load.mean)
    rates = {by: [each["tokens"] / each["seconds"] for each in cells] for by, cells in found.items()}
    share = 100 * median(rates["hub"]) / median(rates["loop"])
    spread = " ".join(f"{100 * hub / loop:.0f}" for hub, loop in zip(rates["hub"], rates["loop"], strict=True))
    lab.add(measured(lab.part, f"bare loop, {where}", median(rates["loop"]), "tokens/s"))
    lab.add(measured(lab.part, f"hub, {where}", median(rates["hub"]), "tokens/s"))
    lab.add(at_least(lab.part, f"hub of bare loop, {where}", share, SHARE_PERCENT, "%", note=f"turn by turn: {spread}"))
    calls = {by: median(each["calls"] / each["episodes"] for each in found[by]) for by in found}
    note = f"the bare loop: {calls['loop']:.2f}"
    lab.add(measured(lab.part, f"model calls, hub, {where}", calls["hub"], "a rollout", note=note))
    rollouts = [each["episodes"] / each["seconds"] for each in found["hub"]]
    lab.add(
        measured(
            lab.part,
            f"rollouts, hub, {where}",
            median(rollouts),
            "/s",
            note="of four answers and the tool calls between them",
        )
    )
    cpu = {by: median(1000 * each["cpu_seconds"] / each["episodes"] for each in found[by]) for by in found}
    note = f"{cpu['loop']:.2f} of the bare loop's, which keeps no record"
    lab.add(measured(lab.part, f"CPU of the hub, {where}", cpu["hub"], "ms a rollout", note=note))
    held_back = sum(each["held_back"] for each in found["hub"])
    note = "by the hub's router, for a server that slows down"
    lab.add(measured(lab.part, f"times that calls were held back, {where}", held_back, note=note))
    unscored = sum(each["unscored"] for each in found["hub"])
    lab.add(at_most(lab.part, f"unscored, {where}", unscored, 0))
    for by, named in (("loop", "bare loop"), ("hub", "hub")):
        if loads[by]:
            lab.add(measured(lab.part, f"GPU's load, {named}, {where}", median(loads[by]), "%"))
        else:
            lab.not_tried(f"GPU's load, {named}, {where}", "no nvidia-smi answers")


def _asked(lab: Lab, served: Served, level: int, by: str) -> Mapping[str, Any]:
    return {
        "by": by,
        "url": served.url,
        "name": served.name,
        "concurrency": level,
        "episodes": level * lab.amounts.rounds,
        "sampling": lab.sampling(tokens=lab.amounts.answer_tokens),
    }


async def _forget(served: Served) -> None:
    """Clear the prefix cache, so that neither finds what the other left."""
    await VllmControl(served.url).reset_prefix_cache()
