"""Draws the distribution of rewards as bars."""

from collections.abc import Sequence

from rich.text import Text

from rollouthub.live.follow.reward_histogram import Bin
from rollouthub.statistics import amounts
from rollouthub.views.terminal.bar_blocks import across, spark, upwards
from rollouthub.views.terminal.text_fit import LABEL, stack

_STYLE = "cyan"
_MOST_LINES = 12
"""Most bins that are drawn as one line each; more are drawn as upright bars."""
_WIDEST_BAR = 6


def reward_histogram(bins: Sequence[Bin], width: int, height: int) -> Text:
    """A histogram of rewards: one line per value where there are few values, else one upright bar per bin."""
    if not bins or height < 1:
        return Text("no rewards yet", LABEL)
    used = [found for found in bins if found.count]
    if not used:
        return Text("no rewards now", LABEL)
    if len(used) <= min(height, _MOST_LINES):
        return _listed(used, width, height)
    if height < 3:
        return reward_spark(bins, width)
    return _upright(_merged(bins, width - 8), width, height)


def reward_spark(bins: Sequence[Bin], width: int) -> Text:
    """The distribution as a sparkline between the lowest and the highest reward."""
    if not any(found.count for found in bins):
        return Text("no rewards yet", LABEL)
    merged = _merged(bins, width - 20)
    step = bins[0].high - bins[0].low
    low, high = _short([edge(bins[0].low, step), edge(bins[-1].low, step)])
    return Text.assemble((f"{low} ", LABEL), (spark([found.count for found in merged]), _STYLE), (f" {high}", LABEL))


def edge(value: float, step: float) -> str:
    """Format a boundary between bins with enough digits to distinguish it from the next one."""
    if abs(value) >= 1e6 or step >= 1e6:
        return f"{value:.3g}"
    digits = 0
    while digits < 6 and abs(round(step, digits) - step) > step / 100:
        digits += 1
    return f"{value + 0.0:.{digits}f}"


def _short(names: Sequence[str]) -> list[str]:
    """The numbers without trailing zeros that all of them have."""
    shortened = list(names)
    while all("." in name and name[-1] in "0." for name in shortened):
        shortened = [name[:-1] for name in shortened]
    return shortened


def _listed(used: Sequence[Bin], width: int, height: int) -> Text:
    step = used[0].high - used[0].low
    names = _short([edge(found.low, step) for found in used])
    total, most = sum(found.count for found in used), max(found.count for found in used)
    counts = [f"{found.count:,}" for found in used]
    label, digits = max(map(len, names)), max(map(len, counts))
    room = max(4, width - label - digits - 10)
    lines: list[Text] = []
    for name, count, found in zip(names, counts, used, strict=True):
        bar = across(found.count / most, room)
        share = amounts.share(found.count / total)
        lines.append(
            Text.assemble((f"{name:>{label}} ", LABEL), (f"{bar:<{room}}", _STYLE), f" {count:>{digits}}")
            .append(f" {share:>6}", LABEL)
        )  # fmt: skip
    if 1 < len(lines) < height:
        lines.append(Text(f"each bar is {edge(step, step)} wide", LABEL))
    return stack(lines)


def _upright(bins: Sequence[Bin], width: int, height: int) -> Text:
    most = max(found.count for found in bins)
    label = len(f"{most:,}")
    each = max(1, min(_WIDEST_BAR, (width - label - 1) // len(bins)))
    rows = height - 2 if height > 3 else height - 1
    columns = [upwards(found.count / most, rows) for found in bins]
    lines: list[Text] = []
    for row in range(rows):
        name = f"{most:,}" if row == 0 else ""
        tick = "┤" if row == 0 else "│"
        body = "".join(column[row] * (each - (each > 2)) + " " * (each > 2) for column in columns)
        lines.append(Text.assemble((f"{name:>{label}}{tick}", LABEL), (body, _STYLE)))
    if height > 3:
        lines.append(Text(" " * label + "└" + "─" * (each * len(bins)), LABEL))
    lines.append(Text(" " * (label + 1) + _edges(bins, each, width - label - 1), LABEL))
    for line in lines:
        line.truncate(width)
    return stack(lines)


def _edges(bins: Sequence[Bin], each: int, room: int) -> str:
    """The axis labels: the lower edges of bins, wherever there is room."""
    step = bins[0].high - bins[0].low
    said = ""
    for place, found in enumerate(bins):
        name, at = edge(found.low, step), place * each
        if at >= len(said) + bool(said) * 2 and at + len(name) <= room:
            said = said.ljust(at) + name
    return said


def _merged(bins: Sequence[Bin], most: int) -> Sequence[Bin]:
    """Merge neighbouring bins until at most `most` are left."""
    together = max(1, -(-len(bins) // max(1, most)))
    if together == 1:
        return bins
    return [
        Bin(part[0].low, part[-1].high, sum(found.count for found in part))
        for part in (bins[place : place + together] for place in range(0, len(bins), together))
    ]
