"""Chooses tasks by how often an earlier run passed them, for example those that are neither solved nor hopeless."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rollouthub.errors import ConfigError
from rollouthub.statistics.pass_at_k import GroupCounts
from rollouthub.store import open_run


@dataclass(frozen=True)
class TaskBand:
    """A range of pass rates (bounds included) in an earlier run."""

    low: float
    high: float
    run: Path


def band_of(text: str) -> TaskBand:
    """Read `LOW:HIGH@RUN`.

    Raises:
        ConfigError: the text has another form.
    """
    bounds, _, run = text.partition("@")
    low, _, high = bounds.partition(":")
    try:
        band = TaskBand(float(low), float(high), Path(run))
    except ValueError:
        band = None
    if band is None or not run or not 0 <= band.low <= band.high <= 1:
        raise ConfigError(
            f"band {text!r} is not LOW:HIGH@RUN with 0 ≤ LOW ≤ HIGH ≤ 1, for example --band 0.2:0.8@runs/first"
        )
    return band


def rate_of(counts: GroupCounts) -> float | None:
    """A task's pass rate; its mean reward if the verifier sets no pass mark; None if nothing was scored."""
    return counts.mean_reward if counts.pass_rate is None else counts.pass_rate


def tasks_within(band: TaskBand) -> dict[str, tuple[str, ...]]:
    """Environment → ids of an earlier run's tasks whose pass rate lies in the band, in the order of that run.

    Raises:
        ConfigError: no task lies in the band.
        RunDirectoryError: the directory holds no run.
    """
    totals: dict[tuple[str, str], tuple[float, int]] = {}
    with open_run(band.run) as reader:
        for counts in reader.group_counts():
            rate = rate_of(counts)
            if rate is not None:
                weight = counts.verdicts or counts.scored
                summed, count = totals.get((counts.environment, counts.task_id), (0.0, 0))
                totals[counts.environment, counts.task_id] = summed + rate * weight, count + weight
    rates = {task: summed / count for task, (summed, count) in totals.items()}
    chosen: dict[str, list[str]] = {}
    for (environment, task_id), rate in rates.items():
        if band.low <= rate <= band.high:
            chosen.setdefault(environment, []).append(task_id)
    if not chosen:
        raise ConfigError(
            f"no task of {band.run} has a pass rate from {band.low:g} to {band.high:g}: {_spread(rates, band)}"
        )
    return {environment: tuple(ids) for environment, ids in chosen.items()}


def _spread(rates: Mapping[tuple[str, str], float], band: TaskBand) -> str:
    if not rates:
        return "none of them is scored"
    sides = Counter("below" if rate < band.low else "above" for rate in rates.values())
    return f"{sides['below']:,} are below, {sides['above']:,} above"
