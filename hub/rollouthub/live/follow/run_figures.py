"""What a run came to so far, in figures."""

from dataclasses import dataclass

from rollouthub.live.follow.outcome_counts import Counts
from rollouthub.rollout import Outcome
from rollouthub.store import RunReader


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures that head a run. Means are over what was scored; None is unknown, never zero."""

    mean_reward: float | None
    strict: float | None
    """With agent failures at zero; what broke on our side is left out of it, too."""
    pass_rate: float | None
    scored: int
    done: int
    """Samples with a record."""
    planned: int | None
    attempts: int
    """Records, those that were tried again among them."""
    turns: int | None
    tool_calls: int | None
    prompt_tokens: int | None
    output_tokens: int
    cost: float | None

    @property
    def coverage(self) -> float | None:
        """Scored over planned; None without a plan."""
        return self.scored / self.planned if self.planned else None

    @property
    def retried(self) -> int:
        """Attempts that a later one took the place of."""
        return max(0, self.attempts - self.done)


def figures_of(counts: Counts, planned: int | None) -> Figures:
    """The figures of a run that is watched."""
    floored = counts.scored + counts.kinds.get("agent_failure", 0)
    return Figures(
        mean_reward=counts.mean_reward,
        strict=counts.reward_sum / floored if floored else None,
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


def figures_in(reader: RunReader) -> Figures:
    """The same of a run of which nothing but sums has been read: of a large one long before all of it is."""
    outcomes, (rewards, judged, passed), totals = reader.outcomes(), reader.reward_sums(), reader.totals()
    scored, failed = outcomes.get(Outcome.SCORED, 0), outcomes.get(Outcome.AGENT_FAILED, 0)
    return Figures(
        mean_reward=rewards / scored if scored else None,
        strict=rewards / (scored + failed) if scored + failed else None,
        pass_rate=passed / judged if judged else None,
        scored=scored,
        done=sum(outcomes.values()),
        planned=reader.info.planned,
        attempts=totals.attempts,
        turns=totals.turns,
        tool_calls=totals.tool_calls,
        prompt_tokens=totals.prompt_tokens,
        output_tokens=totals.output_tokens,
        cost=totals.cost,
    )
