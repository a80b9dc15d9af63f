"""Sleep and wake: seconds, the GPU memory that is free meanwhile, and that the model answers as before."""

import anyio

from rollouthub.trainers.stream import VllmControl
from tests.gpu.gpu_watch import used_gb
from tests.gpu.lab import Lab
from tests.gpu.rows import at_least, at_most, measured
from tests.gpu.update_cell import SAME, apart, probe

MODEL_GB = 0.5
"""What sleep is to free at least: the weights of the model made here are 1 GB, and the KV cache many."""


async def measure(lab: Lab) -> None:
    """Send the engine to sleep at level 1, which keeps the weights in main memory, and wake it."""
    lab.needs_vllm("sleep")
    served = await lab.serve_made()
    control = VllmControl(served.url)
    before = await probe(served.url, served.name)
    held = used_gb()
    began = anyio.current_time()
    await control.sleep(1)
    slept = anyio.current_time()
    try:
        left = used_gb()
    finally:
        waking = anyio.current_time()
        await control.wake_up()
    woken = anyio.current_time()
    note = "vLLM's CPU build takes the call and frees nothing" if lab.is_cpu else ""
    lab.add(measured(lab.part, "to sleep, level 1", slept - began, "s", note=note))
    lab.add(measured(lab.part, "to wake", woken - waking, "s"))
    if held is None or left is None:
        lab.not_tried("GPU memory freed", "no nvidia-smi answers")
    else:
        lab.add(at_least(lab.part, "GPU memory freed", held - left, MODEL_GB, "GB", note=f"of {held:.1f} GB in use"))
    after = await probe(served.url, served.name)
    lab.add(at_most(lab.part, "a probe's log-probability, before and after", apart(before, after), SAME, "nats apart"))
