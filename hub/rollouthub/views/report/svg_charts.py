"""SVG charts, styled by the page, each with a text description for those who cannot see it."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rollouthub.views.markup import Markup, tag
from rollouthub.views.report.report_facts import Bar

WIDTH, HEIGHT = 440.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 14.0, 14.0, 34.0
COLOURS = 8
WIDEST_BAR = 96.0


@dataclass(frozen=True)
class CurvePoint:
    """A value at k, with its interval."""

    k: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Curve:
    """A named curve over k."""

    name: str
    points: tuple[CurvePoint, ...]


def curves(title: str, lines: Sequence[Curve]) -> Markup:
    """Curves over k with intervals, on a k axis of equal steps, since k doubles from point to point."""
    ks = sorted({point.k for line in lines for point in line.points})
    low, high = _range([edge for line in lines for point in line.points for edge in _edges(point)])
    places = {k: _along(place, len(ks)) for place, k in enumerate(ks)}

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    drawn = [*_grid(low, high), *(_label(places[k], HEIGHT - BOTTOM + 19, f"k={k}", "middle") for k in ks)]
    for place, line in enumerate(lines):
        drawn += _line(line, places, up, place % COLOURS)
    words = [
        f"{line.name}: " + ", ".join(f"{point.value:.3f} at k={point.k}" for point in line.points) for line in lines
    ]
    return _picture(title, "; ".join(words), drawn)


def _line(line: Curve, places: dict[int, float], up: Callable[[float], float], colour: int) -> Iterator[Markup]:
    # Curves stand beside each other, so that their whiskers do not cover one another.
    aside = (colour - 0.5) * 7 if colour else -3.5
    across = {point.k: places[point.k] + aside for point in line.points}
    points = " ".join(f"{across[point.k]:.1f},{up(point.value):.1f}" for point in line.points)
    yield tag("polyline", points=points, class_=f"line c{colour}")
    for point in line.points:
        x = across[point.k]
        if point.low is not None and point.high is not None:
            low, high = up(point.low), up(point.high)
            path = f"M{x:.1f} {low:.1f}V{high:.1f}M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8"
            yield tag("path", d=path, class_=f"whisker c{colour}")
        yield tag("circle", cx=x, cy=up(point.value), r="4.5", class_=f"dot c{colour}")


def steps_chart(title: str, points: Sequence[tuple[int, float]]) -> Markup:
    """A line through the values of steps, in order, each at its step."""
    low, high = _range([value for _, value in points])
    first, last = points[0][0], points[-1][0]

    def along(step: int) -> float:
        return LEFT + (step - first) / max(1, last - first) * (WIDTH - LEFT - RIGHT)

    places = [
        f"{along(step):.1f},{HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM):.1f}"
        for step, value in points
    ]
    drawn = [*_grid(low, high), tag("polyline", points=" ".join(places), class_="line c0")]
    ends = ((first, "start"), (last, "end"))
    drawn += [_label(along(step), HEIGHT - BOTTOM + 19, f"{step:,}", anchor) for step, anchor in ends]
    (begin, before), (end, after) = points[0], points[-1]
    return _picture(title, f"{before:.4g} at step {begin:,}, {after:.4g} at step {end:,}", drawn)


def histogram(title: str, bars: Sequence[Bar]) -> Markup:
    """A bar chart of the number of rollouts by reward."""
    most = _ceiling(max(bar.count for bar in bars))
    width = (WIDTH - LEFT - RIGHT) / len(bars)
    drawn = list(_grid(0, most, whole=True))
    every = max(1, len(bars) // 6)
    for place, bar in enumerate(bars):
        height = bar.count / most * (HEIGHT - TOP - BOTTOM)
        wide = min(width * 0.8, WIDEST_BAR)
        left = LEFT + (place + 0.5) * width - wide / 2
        drawn.append(
            tag(
                "rect",
                x=left,
                y=HEIGHT - BOTTOM - height,
                width=wide,
                height=height,
                rx="2",
                class_="bar",
            )
        )
        if place % every == 0:
            drawn.append(_label(left + wide / 2, HEIGHT - BOTTOM + 19, f"{bar.low:.3g}", "middle"))
    return _picture(title, ", ".join(f"{bar.count:,} at {_where(bar)}" for bar in bars), drawn)


def _where(bar: Bar) -> str:
    return f"{bar.low:.3g}" if bar.low == bar.high else f"{bar.low:.3g} to {bar.high:.3g}"


def shares(title: str, parts: Sequence[tuple[str, int]]) -> Markup:
    """One bar divided into parts; each part's name is its CSS class."""
    total = sum(number for _, number in parts) or 1
    left, drawn = 0.0, list[Markup]()
    for name, number in parts:
        width = number / total * 800
        drawn.append(tag("rect", x=left, y="0", width=max(0.0, width - 1.5), height="20", class_=f"part {name}"))
        left += width
    words = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in parts)
    return _picture(title, words, drawn, "0 0 800 20", "strip", "none")


def _edges(point: CurvePoint) -> list[float]:
    return [edge for edge in (point.value, point.low, point.high) if edge is not None]


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The axis range: 0 to 1 if it holds all values, else a little more than the values span."""
    low, high = min(values), max(values)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return low - room, high + room


def _along(place: int, many: int) -> float:
    inner = WIDTH - LEFT - RIGHT
    return LEFT + inner / 2 if many == 1 else LEFT + inner * (0.08 + 0.84 * place / (many - 1))


def _grid(low: float, high: float, *, whole: bool = False) -> Iterator[Markup]:
    for part in range(5):
        value = low + (high - low) * part / 4
        y = HEIGHT - BOTTOM - part / 4 * (HEIGHT - TOP - BOTTOM)
        yield tag("path", d=f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}", class_="axis" if part == 0 else "grid")
        yield _label(LEFT - 7, y + 4, _compact(value) if whole else f"{value:.3g}", "end")


def _ceiling(most: int) -> float:
    """The least axis maximum of at least `most` whose quarter is a round number."""
    quarter = max(1.0, most / 4)
    size = 10 ** math.floor(math.log10(quarter))
    return 4 * next(part * size for part in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if part * size >= quarter - 1e-9)


def _compact(value: float) -> str:
    return f"{value:.3g}" if value < 10_000 else f"{value / 1000:.3g}k"


def _label(x: float, y: float, text: str, anchor: str) -> Markup:
    return tag("text", text, x=x, y=y, text_anchor=anchor)


def _picture(
    title: str,
    words: str,
    drawn: Sequence[Markup],
    box: str = f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
    class_: str = "chart",
    stretch: str | None = None,
) -> Markup:
    label = f"{title}. {words}"
    named: dict[str, str | None] = {"class_": class_, "role": "img", "aria_label": label}
    return tag("svg", tag("title", label), drawn, viewBox=box, preserveAspectRatio=stretch, **named)
