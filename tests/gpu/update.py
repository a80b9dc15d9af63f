"""Pause, update and resume: the seconds of each while rollouts are in flight, and that the weights are then others."""

from importlib.util import find_spec

from tests.gpu.drift import MEAN, MOST
from tests.gpu.lab import Lab
from tests.gpu.rows import Row, at_least, at_most, measured

TOKENS = 64
"""Of an answer: long enough that calls are in flight when generation pauses."""
_WAYS = {"finish": "finished", "abort": "aborted", "keep": "frozen"}


async def measure(lab: Lab) -> None:
    """Exchange the weights of the model made here for those of another seed, and back."""
    served = await lab.serve_made()
    other = await lab.made(seed=1)
    given = {
        "url": served.url,
        "name": served.name,
        "folder": str(served.folder),
        "other": str(other),
        "directory": str(lab.runs / "update"),
        "in_flight": lab.amounts.update_in_flight,
        "sampling": lab.sampling(tokens=TOKENS),
        "is_ipc": lab.engines.has_ipc,
        "has_trainer": find_spec("torch") is not None,
    }
    found = await lab.cell("update_cell", given)
    for way, named in _WAYS.items():
        times = found[way]
        parts = ", ".join(f"{name} {times[name]:.3f}" for name in ("pause", "load", "forget", "resume"))
        lab.add(measured(lab.part, f"pause, update, resume; calls in flight {named}", times["whole"], "s", note=parts))
    told = sum(found[way]["is_told"] for way in _WAYS)
    lab.add(at_least(lab.part, "updates after which the server has the version", told, len(_WAYS)))
    lab.add(measured(lab.part, "calls aborted and asked again", found["aborted"]))
    is_other = found["changed"] > found["same"]
    changed = Row(
        lab.part,
        "a probe's log-probability, other weights",
        "passed" if is_other else "missed",
        found["changed"],
        "nats apart",
        f"> {found['same']}",
    )
    lab.add(changed)
    lab.add(at_most(lab.part, "the same, first weights again", found["unchanged"], found["same"], "nats apart"))
    if "drift" in found:
        of = "log-probability apart from the trainer's with other weights"
        lab.add(at_most(lab.part, f"{of}, mean", found["drift"]["mean"], MEAN, "nats"))
        lab.add(at_most(lab.part, f"{of}, most", found["drift"]["most"], MOST, "nats"))
    else:
        lab.not_tried("log-probability apart from the trainer's with other weights", "torch is not installed")
    if "ipc" in found:
        times = found["ipc"]
        lab.add(
            measured(lab.part, "by CUDA IPC, second update", times["second"], "s", note=f"first {times['first']:.3f}")
        )
    else:
        why = "no GPU" if lab.is_cpu else "vLLM is not installed beside the trainer"
        lab.not_tried("by CUDA IPC", why)
