"""`PlayedShare`: what a run says of one environment, by episode and by group."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rollouthub.analysis.sample_usage import EnvironmentSample, read_sample
from rollouthub.statistics import summarise_groups
from rollouthub.statistics.pass_at_k import GroupCounts
from rollouthub.statistics.spread import GroupSpread, group_spread
from rollouthub.store import RunReader


@dataclass(frozen=True)
class PlayedShare:
    """The results and the cost of an environment's episodes in one run."""

    tasks: int
    rollouts: int
    scored: int
    mean_reward: float | None
    pass_rate: float | None
    spread: GroupSpread
    prompt_tokens: float
    """A mean per episode, as are the next four; all attempts of an episode count."""
    output_tokens: float
    calls: float
    """Model calls."""
    seconds: float
    cost: float | None
    """US dollars; None where a price is unknown."""

    def as_json(self) -> dict[str, Any]:
        """All of it, with the spread beside the other figures."""
        values = asdict(self)
        return values | values.pop("spread")


def read_played(reader: RunReader) -> dict[str, PlayedShare]:
    """Environment → its share of a run; environments without an episode are left out."""
    counts: dict[str, list[GroupCounts]] = {}
    for group in reader.group_counts():
        counts.setdefault(group.environment, []).append(group)
    tables = summarise_groups(group for groups in counts.values() for group in groups)
    found: dict[str, PlayedShare] = {}
    for name, sample in read_sample(reader).items():
        summary = tables.environments[name]
        means = dict(_means(sample))
        found[name] = PlayedShare(
            tasks=summary.tasks,
            rollouts=sample.rollouts,
            scored=sample.scored,
            mean_reward=summary.mean_reward,
            pass_rate=summary.pass_rate,
            spread=group_spread(counts[name]),
            prompt_tokens=means["prompt_tokens"],
            output_tokens=means["output_tokens"],
            calls=means["calls"],
            seconds=means["seconds"],
            cost=means["cost"] if sample.is_priced else None,
        )
    return found


def _means(sample: EnvironmentSample) -> Iterator[tuple[str, float]]:
    return ((name, mean.mean) for name, mean in sample.means.items())
