"""Finds the layer that limits a run's rate: the least of the rates that each layer and process allows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rollouthub.bench.layer import Layer, LayerRun, Way

Part = Literal["model", "environment", "verifier", "transport", "store", "schedule", "engine"]
"""A layer, or `engine`: the agent's loop, recording and coroutines around the layers."""
Kind = Literal["alone", "cpu"]
"""`alone`: the rate of a layer measured alone. `cpu`: the rate that a process's CPU time per rollout allows."""

BUSY = 0.6
"""Busy share from which a layer is limited by its CPU work, not by waiting."""
GROWS = 1.3
"""If twice as many operations in flight multiply the rate by more than this, concurrency limits the rate."""
NEAR = 0.75
"""If a run reaches at least this share of its lowest bound, no further explanation is given."""
BESIDE = 3
"""The next bound is mentioned only if it is less than this many times the lowest one."""


@dataclass(frozen=True)
class Bound:
    """The highest rollout rate that one layer or process allows."""

    part: Part
    """The layer that sets the bound; for a process, the layer that uses most of its CPU."""
    kind: Kind
    where: str
    """The process or machine for kind `cpu`; empty for kind `alone`."""
    per_second: float
    why: str


@dataclass(frozen=True)
class BottleneckVerdict:
    """The bottleneck of one run, and all bounds."""

    run: str
    bottleneck: Part
    per_second: float
    """Rollouts per second that were measured."""
    possible_per_second: float
    """Rollouts per second that the bottleneck allows."""
    share: float
    """Measured rate divided by possible rate."""
    sentence: str
    bounds: tuple[Bound, ...]
    """All bounds, the lowest first."""

    def as_json(self) -> dict[str, Any]:
        """The verdict as `hub bench layers --json` prints it."""
        return asdict(self)


@dataclass(frozen=True)
class MeasuredRun:
    """A whole run, and the machine and processes on which it was played."""

    name: str
    way: Way
    played: LayerRun
    in_flight: int
    cores: int
    workers: int = 0
    is_busy: bool = False
    """Whether other programs used the machine's cores."""


def judge(run: MeasuredRun, layers: Sequence[Layer]) -> BottleneckVerdict:
    """Find a run's bottleneck from measurements of its layers alone."""
    found = [bound for bound in (*_alone(run, layers), *_processes(run, layers)) if bound.per_second > 0]
    bounds = tuple(sorted(found, key=lambda bound: bound.per_second))
    first, measured = bounds[0], run.played.per_second
    share = round(measured / first.per_second, 3)
    reached = f"The run reached {share:.0%} of the {_rate(first)} this allows"
    sentence = f"{first.why}; {_advice(first, run, layers)}. {reached}"
    others = [bound for bound in bounds if bound.part != first.part and bound.per_second < BESIDE * first.per_second]
    if share < NEAR and run.is_busy:
        sentence += "; others were at work on this machine"
    elif share < NEAR and others:
        sentence += f"; {others[0].part} is next with {_rate(others[0])}, and an episode meets one after the other"
    return BottleneckVerdict(run.name, first.part, measured, round(first.per_second, 1), share, f"{sentence}.", bounds)


def _alone(run: MeasuredRun, layers: Sequence[Layer]) -> list[Bound]:
    """The bounds of the layers, from each measured alone."""
    bounds: list[Bound] = []
    for part in ("model", "environment", "verifier", "transport", "store", "schedule"):
        of = [layer for layer in layers if layer.layer == part]
        if not of or (part == "transport" and run.way != "served"):
            continue
        rate = 1 / sum(layer.seconds_per_rollout for layer in of)
        slowest = max(of, key=lambda layer: layer.seconds_per_rollout)
        if slowest.busy >= BUSY:
            # Not waiting, but work: what it does with a core of its own, whoever else is at work on this machine.
            ours = 1000 / sum(layer.cpu_ms_per_rollout for layer in of)
            theirs = 1000 / max(sum(layer.per_rollout * layer.server_cpu_ms for layer in of), 1e-9)
            if run.way == "ray" and part in _PLAYED:
                ours *= min(run.workers, run.cores)
            rate = max(rate, min(ours, theirs))
        why = f"{part}: {_number(slowest.per_second)} × {slowest.work} a second at {run.in_flight} in flight"
        if slowest.p50_ms is not None:
            why += f", {_number(slowest.p50_ms)} ms each"
        bounds.append(Bound(part, "alone", "", round(rate, 2), why))
    return bounds


def _processes(run: MeasuredRun, layers: Sequence[Layer]) -> list[Bound]:
    """The bounds of the processes that play, each with one core, and of all cores of the machine together."""
    played = run.played
    parted: list[dict[Part, float]]
    if run.way == "one process":
        driver = _parts(layers, (*_PLAYED, *_KEPT), played.driver_cpu_ms, "engine")
        started: dict[Part, float] = {"environment": played.servers_cpu_ms}
        bounds, parted = [_bound("the run's process", 1, driver)], [driver, started]
    elif run.way == "served":
        driver = _parts(layers, ("model", "transport", *_KEPT), played.driver_cpu_ms, "engine")
        server = _parts(layers, ("environment", "verifier"), played.servers_cpu_ms, "transport")
        bounds = [_bound("the run's process", 1, driver), _bound("the environment's process", 1, server)]
        parted = [driver, server]
    else:
        # All that this driver does is to send samples out and to keep what comes back.
        driver = _parts(layers, _KEPT, played.driver_cpu_ms, "transport")
        workers = _parts(layers, _PLAYED, played.workers_cpu_ms, "engine")
        bounds = [_bound("the driver", 1, driver), _bound(f"each of {run.workers} workers", run.workers, workers)]
        parted = [driver, workers, {"transport": played.servers_cpu_ms}]
    together: dict[Part, float] = {"model": played.model_cpu_ms}
    for parts in parted:
        for part, cpu_ms in parts.items():
            together[part] = together.get(part, 0.0) + cpu_ms
    machine = _bound(f"this machine with its {run.cores} cores", run.cores, together)
    return [bound for bound in (*bounds, machine) if bound is not None]


_PLAYED: tuple[Part, ...] = ("model", "environment", "verifier")
_KEPT: tuple[Part, ...] = ("store", "schedule")


def _parts(layers: Sequence[Layer], parts: Sequence[Part], cpu_ms: float, rest: Part) -> dict[Part, float]:
    """Divide a process's CPU milliseconds per rollout among these layers; what they do not explain goes to `rest`."""
    found: dict[Part, float] = dict.fromkeys(parts, 0.0)
    for layer in layers:
        if layer.layer in found:
            found[layer.layer] += layer.cpu_ms_per_rollout
    found[rest] = found.get(rest, 0.0) + max(cpu_ms - sum(found.values()), 0.0)
    return found


def _bound(where: str, cores: int, parts: Mapping[Part, float]) -> Bound | None:
    """The rollout rate that so many cores allow, given CPU milliseconds per rollout by layer; None if they are 0."""
    cpu_ms = sum(parts.values())
    if cpu_ms <= 0:
        return None
    most = max(parts, key=lambda part: parts[part])
    used = f"{cpu_ms:,.2f} ms of CPU for a rollout, {parts[most] / cpu_ms:.0%} of it {_WORK[most]}"
    return Bound(most, "cpu", where, round(cores * 1000 / cpu_ms, 2), f"{most}: {where} uses {used}")


_WORK: Mapping[Part, str] = {
    "model": "the model's calls",
    "environment": "the environment's own",
    "verifier": "verdicts",
    "transport": "transport",
    "store": "the store",
    "schedule": "the schedule",
    "engine": "the engine around the layers",
}


def _advice(bound: Bound, run: MeasuredRun, layers: Sequence[Layer]) -> str:
    """What to change so that this bound rises."""
    if bound.kind == "cpu":
        return _cpu_advice(bound, run)
    if bound.part == "model":
        layer = next(layer for layer in layers if layer.layer == "model")
        if layer.at_twice is not None and layer.at_twice > GROWS * layer.per_second:
            return f"twice as many in flight give {_number(layer.at_twice)}: raise the concurrency"
        return "more in flight give no more: add replicas, or a faster server"
    return {
        "environment": "raise the concurrency if its tools wait for something, else make them faster",
        "verifier": "raise the concurrency if it waits for something, else make it faster, or add workers",
        "transport": "keep the environment in the run's process, or add servers (--servers)",
        "store": "keep the run's directory on a faster local disk",
        "schedule": "nothing: a run this fast has other worries",
    }[bound.part]


def _cpu_advice(bound: Bound, run: MeasuredRun) -> str:
    if bound.where.startswith("this machine"):
        return "its cores are all there is: add machines (--ray-address), or take the model's server off this one"
    if run.way == "ray":
        return "add workers (--workers)" if bound.where.startswith("each") else "nothing: the driver is one process"
    if bound.where == "the environment's process":
        return "add servers (--servers), or keep the environment in the run's process"
    if bound.part == "transport":
        return "keep the environment in the run's process, or add workers (--pool ray)"
    return "add workers (--pool ray --workers N)"


def _rate(bound: Bound) -> str:
    return f"{_number(bound.per_second)} rollouts a second"


def _number(value: float) -> str:
    """Format a number with at least two significant digits."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
