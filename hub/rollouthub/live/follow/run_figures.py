"""The headline figures of a run so far."""

from dataclasses import dataclass

from rollouthub.live.follow.outcome_counts import OutcomeCounts
from rollouthub.statistics.means import mean_of
from rollouthub.store import RunReader


@dataclass(frozen=True, slots=True)
class RunTotals:
    """The headline figures of a run. Means are over scored samples; None is unknown, never zero."""

    mean_reward: float | None
    strict: float | None
    """Mean reward with agent failures counted as 0; infrastructure failures are left out."""
    pass_rate: float | None
    scored: int
    done: int
    """Number of samples with a record."""
    planned: int | None
    attempts: int
    """Number of records, retried attempts included."""
    turns: int | None
    tool_calls: int | None
    prompt_tokens: int | None
    output_tokens: int
    cost: float | None

    @property
    def coverage(self) -> float | None:
        """Scored samples over planned ones; None without a plan."""
        return mean_of(self.scored, self.planned or 0)

    @property
    def retried(self) -> int:
        """Number of attempts that a later one replaced."""
        return max(0, self.attempts - self.done)


def figures_of(counts: OutcomeCounts, planned: int | None) -> RunTotals:
    """Return the figures of a followed run."""
    return RunTotals(
        mean_reward=counts.mean_reward,
        strict=mean_of(counts.reward_sum, counts.scored + counts.kinds.get("agent_failure", 0)),
        pass_rate=counts.pass_rate,
        scored=counts.scored,
        done=counts.effective,
        planned=planned,
        attempts=counts.attempts,
        turns=counts.turns,
        tool_calls=counts.tool_calls,
        prompt_tokens=counts.prompt_tokens,
        output_tokens=counts.output_tokens,
        cost=counts.cost,
    )


def figures_in(reader: RunReader) -> RunTotals:
    """Return a run's figures from sums that the store computes: for a large run, this is much faster than reading
    all its rows.
    """
    means, totals = reader.means(), reader.totals()
    return RunTotals(
        mean_reward=means.mean_reward,
        strict=means.mean_reward_strict,
        pass_rate=means.pass_rate,
        scored=means.scored,
        done=means.finished,
        planned=reader.info.planned,
        attempts=totals.attempts,
        turns=totals.turns,
        tool_calls=totals.tool_calls,
        prompt_tokens=totals.prompt_tokens,
        output_tokens=totals.output_tokens,
        cost=totals.cost,
    )
