"""Durations of the stages of rollouts."""

from collections.abc import Mapping, Sequence

from rich.text import Text

from rollouthub.statistics import amounts
from rollouthub.views.terminal.bar_blocks import across
from rollouthub.views.terminal.text_fit import LABEL, stack

_NAME, _FIGURE, _LEAST_BAR, _MOST_BAR = 7, 10, 8, 40


def stage_table(
    quantiles: Mapping[str, Sequence[float]], width: int, height: int = 99, *, is_exact: bool = True
) -> Text:
    """p50, p95 and p99 of each stage that took any time, and its p50 as a bar where there is room; estimates have a
    `≈` before their names.
    """
    rows = [(stage, values) for stage, values in quantiles.items() if any(values)]
    if not rows:
        return Text("no times yet", LABEL)
    names = [f"{'' if is_exact else '≈'}{name}" for name in ("p50", "p95", "p99")]
    room = min(_MOST_BAR, width - _NAME - _FIGURE * len(names) - 2)
    longest = max((values[0] for stage, values in rows if stage != "total"), default=0.0)
    head = f"{'stage':<{_NAME}}" + "".join(f"{name:>{_FIGURE}}" for name in names)
    if room >= _LEAST_BAR:
        head += "  p50"
    lines = [Text(head, LABEL)]
    for stage, values in rows[: max(1, height - 1)]:
        line = Text(f"{stage:<{_NAME}}", "bold" if stage == "total" else "")
        line.append("".join(f"{amounts.seconds(value):>{_FIGURE}}" for value in values))
        if room >= _LEAST_BAR and stage != "total" and longest:
            line.append("  ").append(across(values[0] / longest, room), "blue")
        lines.append(line)
    return stack(lines)


def stage_line(medians: Mapping[str, float], width: int) -> Text:
    """The median durations in one line, without stages that took no time."""
    line = Text.assemble(("p50 ", LABEL))
    for stage, value in medians.items():
        part = Text.assemble((f" {stage} ", LABEL), amounts.seconds(value))
        if value and line.cell_len + part.cell_len <= width:
            line.append_text(part)
    return line
