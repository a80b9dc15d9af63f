"""The figures of a run on the terminal: side by side, or as a table."""

from rich.text import Text

from rollouthub.live.follow.run_figures import RunTotals
from rollouthub.statistics import amounts
from rollouthub.statistics.pass_at_k import GroupSummary
from rollouthub.views.terminal.text_fit import LABEL, fact, flow, stack


def headline(figures: RunTotals, width: int, most: int = 3) -> Text:
    """The figures next to each other in at most `most` lines, the most important first."""
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


def figure_table(figures: RunTotals, width: int, height: int, summary: GroupSummary | None = None) -> Text:
    """The figures in one to three columns, one figure per row, the most important first; with `summary`, intervals and
    pass@k over tasks.
    """
    rows = _rows(figures, summary)
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


def _rows(figures: RunTotals, summary: GroupSummary | None) -> list[tuple[str, str, str]]:
    planned = amounts.NONE if figures.planned is None else f"{figures.planned:,}"
    at_k = () if summary is None else summary.at_k
    mean = amounts.interval(summary and summary.mean_estimate)
    # The same figure twice says less than once.
    is_strict = figures.strict != figures.mean_reward
    passing = amounts.interval(summary and summary.pass_estimate, amounts.share)
    return [
        ("mean reward", amounts.number(figures.mean_reward), mean or f"of {figures.scored:,} scored"),
        *([("strict", amounts.number(figures.strict), "failures as 0")] if is_strict else []),
        ("pass rate", amounts.share(figures.pass_rate), passing),
        *(
            (f"pass@{at.k}", amounts.share(at.pass_at_k.value), amounts.interval_and_tasks(at.pass_at_k, amounts.share))
            for at in at_k
            if at.k > 1 and at.pass_at_k is not None
        ),
        ("coverage", amounts.share(figures.coverage), f"of {planned} planned"),
        *([("retried", f"{figures.retried:,}", "attempts")] if figures.retried else []),
        ("output tokens", amounts.short(figures.output_tokens), _each(figures.output_tokens, figures.attempts)),
        ("prompt tokens", amounts.short(figures.prompt_tokens), _each(figures.prompt_tokens, figures.attempts)),
        ("turns", amounts.short(figures.turns), _each(figures.turns, figures.attempts)),
        ("tool calls", amounts.short(figures.tool_calls), _each(figures.tool_calls, figures.attempts)),
        ("cost", amounts.dollars(figures.cost), ""),
        *([] if figures.retried else [("retried", "0", "attempts")]),
    ]


def _each(total: int | None, attempts: int) -> str:
    if total is None or not attempts:
        return ""
    mean = total / attempts
    return f"{mean:,.1f} each" if mean < 1000 else f"{mean:,.0f} each"
