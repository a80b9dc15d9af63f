"""Measures what the rollouts of a sample used, task by task, as input for an estimate."""

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rollouthub.models.prices import Price
from rollouthub.rollout import Outcome
from rollouthub.statistics.intervals import TaskMeans
from rollouthub.store import RoleUsage, RunReader
from rollouthub.store.run_facts import AttemptSummary

QUANTITIES = ("prompt_tokens", "output_tokens", "calls", "cost", "seconds")


@dataclass
class EnvironmentSample:
    """One environment's sampled rollouts: means over tasks of the use per rollout, all attempts of a rollout summed."""

    means: dict[str, TaskMeans] = field(default_factory=lambda: {name: TaskMeans() for name in QUANTITIES})
    rollouts: int = 0
    scored: int = 0
    is_priced: bool = True
    """Whether the cost of every call is known."""
    roles: dict[str, RoleUsage] = field(default_factory=dict[str, RoleUsage])
    """Role → use of the models that the environment called itself; their cost is part of the rollouts' cost."""
    seconds: "array[float]" = field(default_factory=lambda: array("d"))
    """Seconds of each rollout's effective attempt."""

    @property
    def tasks(self) -> int:
        """The number of tasks that have rollouts."""
        return self.means["seconds"].tasks


def read_sample(
    reader: RunReader, price: Price | None = None, unreported: Mapping[str, int] | None = None
) -> dict[str, EnvironmentSample]:
    """Read what a run's rollouts used, by environment.

    A given price replaces the recorded cost of the tokens of the model that plays; the recorded cost of role models is
    added. `unreported` are prompt tokens of groups that their calls did not report.
    """
    samples: dict[str, EnvironmentSample] = {}
    for name, rows in _by_task(reader):
        sample = samples.setdefault(name, EnvironmentSample())
        count = sum(row.effective for row in rows)
        for quantity, mean in sample.means.items():
            unseen = 0 if unreported is None else unreported.get(rows[0].group_id, 0)
            amount = sum(_amount(quantity, row, price) for row in rows) + _unreported(quantity, unseen, price)
            mean.add(max(0.0, amount) / count, count)
        sample.rollouts += count
        sample.scored += sum(row.effective and row.outcome is Outcome.SCORED for row in rows)
        sample.seconds.extend(row.seconds for row in rows if row.effective)
        if price is None and any(row.cost is None and row.output_tokens for row in rows):
            sample.is_priced = False
    for name, sample in samples.items():
        sample.roles = reader.role_usage(name)
        if price is not None and (asked := sum(usage.cost or 0.0 for usage in sample.roles.values())):
            sample.means["cost"].mean += asked / sample.rollouts
    return samples


def _by_task(reader: RunReader) -> Iterator[tuple[str, list[AttemptSummary]]]:
    """Yield, for each task, its environment's name and all attempts at its samples."""
    rows: list[AttemptSummary] = []
    for row in reader.summaries(effective=False, order_by="group_id"):
        if rows and row.group_id != rows[0].group_id:
            yield rows[0].environment, rows
            rows = []
        rows.append(row)
    if rows:
        yield rows[0].environment, rows


def _amount(quantity: str, row: AttemptSummary, price: Price | None) -> float:
    match quantity:
        case "prompt_tokens":
            return row.prompt_tokens
        case "output_tokens":
            return row.output_tokens
        case "calls":
            return row.turns
        case "seconds":
            return row.seconds
        case _:
            return price.cost(row.prompt_tokens, row.output_tokens) if price is not None else row.cost or 0.0


def _unreported(quantity: str, prompt_tokens: int, price: Price | None) -> float:
    if quantity == "cost":
        return 0.0 if price is None else price.cost(prompt_tokens, 0)
    return prompt_tokens if quantity == "prompt_tokens" else 0.0


def longest_of(seconds: "array[float]", count: int) -> float:
    """Return the expected maximum of `count` values drawn from these durations, in seconds."""
    ranked, total = sorted(seconds), len(seconds)
    shares = [math.exp(count * math.log(place / total)) if place else 0.0 for place in range(total + 1)]
    return sum(value * (shares[place + 1] - shares[place]) for place, value in enumerate(ranked))
