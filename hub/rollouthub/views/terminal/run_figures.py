"""What a run came to so far, in figures."""

from dataclasses import dataclass

from rich.text import Text

from rollouthub.live.follow.outcome_counts import Counts
from rollouthub.rollout import Outcome
from rollouthub.statistics import amounts
from rollouthub.store import RunReader
from rollouthub.views.terminal.text_fit import LABEL, fact, flow, stack


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


def headline(figures: Figures, width: int, most: int = 3) -> Text:
    """The figures side by side, the most important first, in at most so many lines."""
    parts = [fact("mean reward", amounts.number(figures.mean_reward), "bold")]
    if figures.strict != figures.mean_reward:
        parts.append(fact("strict", amounts.number(figures.strict)))
    parts.append(fact("pass rate", amounts.share(figures.pass_rate)))
    parts.append(fact("coverage", amounts.share(figures.coverage)))
    parts.append(fact("output tokens", amounts.short(figures.output_tokens)))
    if figures.cost is not None:
        parts.append(fact("cost", amounts.dollars(figures.cost)))
    if figures.retried:
        parts.append(fact("retried", f"{figures.retried:,}", "bold yellow"))
    if figures.prompt_tokens is not None:
        parts.append(fact("prompt tokens", amounts.short(figures.prompt_tokens)))
    return flow(parts, width, most)


def figure_table(figures: Figures, width: int, height: int) -> Text:
    """A figure a line, or two beside each other where lines are short; the most important first."""
    rows = _rows(figures)
    columns = min(3, max(1, width // 36), -(-len(rows) // max(1, height)))
    deep = -(-len(rows) // columns)
    room = width // columns
    lines: list[Text] = []
    for place in range(min(deep, height)):
        line = Text()
        for column, (label, value, remark) in enumerate(rows[place::deep]):
            line.append(" " * (column * room - line.cell_len))
            line.append(f"{label:<14}", LABEL).append(value, "bold")
            if remark and len(label) + len(value) + len(remark) + 4 < room:
                line.append(f" {remark}", LABEL)
        line.truncate(width, overflow="ellipsis")
        lines.append(line)
    return stack(lines)


def _rows(figures: Figures) -> list[tuple[str, str, str]]:
    planned = amounts.NONE if figures.planned is None else f"{figures.planned:,}"
    return [
        ("mean reward", amounts.number(figures.mean_reward), f"of {figures.scored:,} scored"),
        ("strict", amounts.number(figures.strict), "failures as 0"),
        ("pass rate", amounts.share(figures.pass_rate), ""),
        ("coverage", amounts.share(figures.coverage), f"of {planned} planned"),
        ("output tokens", amounts.short(figures.output_tokens), _each(figures.output_tokens, figures.attempts)),
        ("prompt tokens", amounts.short(figures.prompt_tokens), _each(figures.prompt_tokens, figures.attempts)),
        ("turns", amounts.short(figures.turns), _each(figures.turns, figures.attempts)),
        ("tool calls", amounts.short(figures.tool_calls), _each(figures.tool_calls, figures.attempts)),
        ("cost", amounts.dollars(figures.cost), ""),
        ("retried", f"{figures.retried:,}", "attempts"),
    ]


def _each(total: int | None, attempts: int) -> str:
    if total is None or not attempts:
        return ""
    mean = total / attempts
    return f"{mean:,.1f} each" if mean < 1000 else f"{mean:,.0f} each"
