"""Charts of differences, as SVG that fills its card: lengths are shares of the width, and text keeps its size."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.views.markup import Markup, tag

ROW = 40.0
NAME_CHARACTERS = 44
_FIRST, _LAST = 4.0, 96.0
"""Per cent of the width at which the axis begins and ends."""


@dataclass(frozen=True)
class ForestRow:
    """A difference with its interval."""

    name: str
    value: float
    low: float | None
    high: float | None
    verdict: str
    """`better`, `worse` or `unclear`."""


def round_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from below `low` to above `high`, evenly spaced, 0 among them if it lies between."""
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    span = high - low
    size = 10 ** math.floor(math.log10(span / most))
    step = next(part * size for part in (1, 2, 2.5, 5, 10, 20) if span / (part * size) <= most)
    return [step * place for place in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


def forest_plot(title: str, rows: Sequence[ForestRow]) -> Markup:
    """Differences with their intervals, one above another, on an axis of round numbers with a line at zero."""
    edges = [edge for row in rows for edge in (row.value, row.low, row.high) if edge is not None]
    ticks = round_ticks(min(0.0, *edges), max(0.0, *edges))
    height = ROW * len(rows) + 26

    def along(value: float) -> str:
        share = (value - ticks[0]) / (ticks[-1] - ticks[0])
        return f"{_FIRST + share * (_LAST - _FIRST):.2f}%"

    drawn: list[Markup] = []
    places = max(0, -math.floor(math.log10(ticks[1] - ticks[0]) + 1e-9))
    digits = places if abs(round(ticks[1], places) - ticks[1]) < 1e-12 else places + 1
    for tick in ticks:
        is_zero = abs(tick) < 1e-12
        line = {"x1": along(tick), "x2": along(tick), "y1": "2", "y2": f"{height - 22:.0f}"}
        drawn.append(tag("line", class_="zero" if is_zero else "grid", **line))
        words = "0" if is_zero else f"{tick:+.{digits}f}"
        drawn.append(tag("text", words, x=along(tick), y=height - 6, text_anchor="middle"))
    for place, row in enumerate(rows):
        y = ROW * place + 29
        if row.low is not None and row.high is not None:
            span = {"x1": along(row.low), "x2": along(row.high)}
            drawn.append(tag("line", class_=f"span {row.verdict}", y1=y, y2=y, **span))
        drawn.append(tag("circle", cx=along(row.value), cy=y, r="5.5", class_=f"mark {row.verdict}"))
        name = row.name if len(row.name) <= NAME_CHARACTERS else f"{row.name[: NAME_CHARACTERS - 1]}…"
        drawn.append(tag("text", name, x="0", y=y - 14, class_="name"))
    label = f"{title}. " + ", ".join(f"{row.name}: {row.value:+.3f}, {row.verdict}" for row in rows)
    return tag("svg", tag("title", label), drawn, height=height, class_="forest", role="img", aria_label=label)


def before_and_after(first: float, second: float, low: float, high: float) -> Markup:
    """A task's mean reward in two runs, hollow and filled, on a track from `low` to `high`."""
    room = (high - low) or 1.0

    def along(value: float) -> str:
        return f"{5 + (value - low) / room * 90:.2f}%"

    verdict = "better" if second > first else "worse" if second < first else "unclear"
    label = f"from {first:.3f} to {second:.3f}"
    return tag(
        "svg",
        tag("title", label),
        tag("line", x1="5%", x2="95%", y1="9", y2="9", class_="track"),
        tag("line", x1=along(first), x2=along(second), y1="9", y2="9", class_=f"span {verdict}"),
        tag("circle", cx=along(first), cy="9", r="5", class_="before"),
        tag("circle", cx=along(second), cy="9", r="5.5", class_=f"mark {verdict}"),
        class_="pair",
        role="img",
        aria_label=label,
    )
