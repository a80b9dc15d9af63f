"""A table of a run's environments."""

from collections.abc import Sequence

from rich.text import Text

from rollouthub.live.follow.group_tables import GroupLine
from rollouthub.statistics import amounts
from rollouthub.views.terminal.bar_blocks import across
from rollouthub.views.terminal.text_fit import LABEL, column, stack

_FIGURES = (("scored", 13), ("pass", 8), ("reward", 9), ("std", 8), ("tokens", 8))
_LEAST_NAME, _MOST_NAME, _LEAST_BAR, _MOST_BAR = 12, 40, 8, 30


def environment_table(lines: Sequence[GroupLine], width: int, height: int = 99) -> Text:
    """Scored rollouts, pass rate, mean and deviation of rewards, tokens of each environment; as many columns as fit."""
    if not lines:
        return Text("nothing has finished yet", LABEL)
    shown = list(_FIGURES)
    while len(shown) > 1 and _LEAST_NAME + sum(room for _, room in shown) > width:
        shown.pop()
    left = width - sum(room for _, room in shown)
    name = min(_MOST_NAME, left, max(_LEAST_NAME, *(len(line.name) for line in lines)))
    bar = min(_MOST_BAR, left - name - 2)
    head = f"{'environment':<{name}}" + "".join(f"{title:>{room}}" for title, room in shown)
    table = [Text(head + "  pass rate" * (bar >= _LEAST_BAR), LABEL)]
    fits = lines if len(lines) < height else lines[: max(1, height - 2)]
    for line in fits:
        row = Text(column(line.name, name))
        row.append("".join(f"{_cell(title, line):>{room}}" for title, room in shown))
        if bar >= _LEAST_BAR and line.pass_rate is not None:
            row.append("  ").append(across(line.pass_rate, bar), "green")
            row.append("░" * (bar - len(across(line.pass_rate, bar))), LABEL)
        table.append(row)
    if len(fits) < len(lines):
        table.append(Text(f"… {len(lines) - len(fits)} more", LABEL))
    for row in table:
        row.truncate(width)
    return stack(table)


def _cell(title: str, line: GroupLine) -> str:
    match title:
        case "scored":
            return f"{line.counts.scored:,}/{line.counts.planned:,}"
        case "pass":
            return amounts.share(line.pass_rate)
        case "reward":
            return amounts.number(line.mean_reward)
        case "std":
            return amounts.number(line.deviation)
        case _:
            return amounts.short(line.output_tokens)
