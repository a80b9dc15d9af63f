"""Mean reward, a trainer's loss, pass rate and speed over the rollouts of a run."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import fmean
from typing import TypeVar

from rich.text import Text

from rollouthub.live.follow.timeline import TimelinePoint
from rollouthub.statistics import amounts
from rollouthub.views.terminal.bar_blocks import spark
from rollouthub.views.terminal.curve import band, curve, drawing
from rollouthub.views.terminal.progress_line import speed
from rollouthub.views.terminal.text_fit import LABEL, cut, flow, stack

_LABEL = 7
_LEAST_ROWS = 3
_WINDOWS = 10
"""Where a trainer learns from the run, a mean on a curve is over the last one of so many parts of it."""
_SMOOTHING = 40
"""Speed is measured over at least one of so many parts of the time."""
_NARROWEST_RANGE = 0.4
"""Losses between 0 and 1 that differ by more than this get an axis from 0 to 1."""
_LOOKS = (
    ("cyan", "──", 1, 1),
    ("magenta", "╌╌", 6, 4),
    ("yellow", "┈┈", 2, 1),
    ("bright_blue", "··", 8, 2),
)
"""For each environment's line its style, its mark in the legend, and which of its dots are drawn (`curve`)."""

_LONGEST_NAME = 24

Values = Sequence[float | None]


@dataclass
class _Chart:
    """Lines in one frame."""

    title: str
    style: str
    lines: Sequence[Values]
    axis: tuple[float, float]
    bounds: Sequence[tuple[float, float] | None] = ()
    """The interval around the line, of which there is one."""
    legend: Sequence[Text] = field(default_factory=list[Text])


def timeline_chart(
    points: Sequence[TimelinePoint],
    width: int,
    height: int,
    losses: Sequence[tuple[float, float]] = (),
    rewards: tuple[float, float] = (0.0, 1.0),
) -> Text:
    """Curves one above the other, over the rollouts in the order in which they ended, and a sparkline of the speed.

    A curve is the mean of all rewards so far, which at the right is the run's, with its 95 % interval; of several
    environments each has a line. `losses` are those that a trainer logged, each with its time as in `points`; means are
    then over the last tenth of the rollouts, since a policy that learns is not what it was. `rewards` are the least and
    the greatest reward, which the axis spans.
    """
    if not points or height < 1:
        return Text("nothing has finished yet", LABEL)
    columns = max(2, width - _LABEL)
    if height < _LEAST_ROWS + 2:
        return stack([_speeds(points, columns)])
    charts = _charts(points, 2 * columns, _axis(*rewards), is_learning=bool(losses))
    if losses:
        values = _losses(points, losses, 2 * columns)
        title = f"loss of the trainer, last {losses[-1][1]:.4g}"
        charts.insert(1, _Chart(title, "magenta", [values], _range([value for value in values if value is not None])))
    room = height - 2
    charts = charts[: max(1, room // (_LEAST_ROWS + 1))]
    lines: list[Text] = []
    for place, chart in enumerate(charts):
        rows = room // len(charts) + (place < room % len(charts)) - 1
        title = flow([Text(chart.title, f"bold {chart.style}"), *chart.legend], columns, most=1)
        lines += [Text.assemble(" " * _LABEL, title), *_plot(chart, rows)]
    lines += [_axis_line(points, columns), _speeds(points, columns)]
    return stack(lines)


_Sums = Callable[[TimelinePoint], tuple[float, int]]


def _rewards(point: TimelinePoint) -> tuple[float, int]:
    return point.reward_sum, point.scored


def _verdicts(point: TimelinePoint) -> tuple[float, int]:
    return point.passed, point.judged


def _charts(
    points: Sequence[TimelinePoint], slots: int, axis: tuple[float, float], *, is_learning: bool
) -> list[_Chart]:
    """The curves to draw: mean reward and pass rate, or one if both are equal or there are no verdicts."""
    reach = max(1, len(points) // _WINDOWS) if is_learning else None
    extent = "so far" if reach is None else "of the last tenth"
    rewards = _chart(points, f"mean reward {extent}", "cyan", _rewards, axis, slots, reach)
    if not any(point.judged for point in points):
        return [rewards]
    if all(point.scored == point.judged and point.reward_sum == point.passed for point in points):
        rewards.title = f"pass rate (the mean reward) {extent}"
        return [rewards]
    return [rewards, _chart(points, f"pass rate {extent}", "green", _verdicts, (0.0, 1.0), slots, reach)]


def _chart(
    points: Sequence[TimelinePoint],
    title: str,
    style: str,
    sums: _Sums,
    axis: tuple[float, float],
    slots: int,
    reach: int | None,
) -> _Chart:
    names = _environments(points)
    if len(names) > 1:
        lines = [
            _means([sums(point.parts[name]) if name in point.parts else (0.0, 0) for point in points], reach)
            for name in names
        ]
        legend = [
            Text.assemble((f"{mark} ", look), (f"{cut(name, _LONGEST_NAME)} {amounts.number(_last(line))}", LABEL))
            for name, line, (look, mark, _, _) in zip(names, lines, _LOOKS, strict=False)
        ]
        if len(names) > len(_LOOKS):
            legend.append(Text(f"+{len(names) - len(_LOOKS)} more", LABEL))
        return _Chart(title, style, [_spread(line, slots) for line in lines[: len(_LOOKS)]], axis, legend=legend)
    line = _means([sums(point) for point in points], reach)
    has_interval = sums is _rewards and reach is None
    found = amounts.estimate(_last(line), points[-1] if has_interval else None)
    bounds = [
        (point.low, point.high) if has_interval and point.low is not None and point.high is not None else None
        for point in points
    ]
    return _Chart(title, style, [_spread(line, slots)], axis, _spread(bounds, slots), [Text(found, LABEL)])


def _environments(points: Sequence[TimelinePoint]) -> list[str]:
    """The environments, the one with most rollouts first."""
    finished: dict[str, int] = {}
    for point in points:
        for name, part in point.parts.items():
            finished[name] = finished.get(name, 0) + part.finished
    return sorted(finished, key=lambda name: -finished[name])


def _means(sums: Sequence[tuple[float, int]], reach: int | None) -> list[float | None]:
    """The mean of all values up to each point, or of the last `reach` points; None before the first and after the last
    point that has any.
    """
    totals = list(accumulate((total for total, _ in sums), initial=0.0))
    counts = list(accumulate((count for _, count in sums), initial=0))
    last = max((place for place, (_, count) in enumerate(sums) if count), default=-1)
    means: list[float | None] = []
    for place in range(len(sums)):
        start = 0 if reach is None else max(0, place + 1 - reach)
        count = counts[place + 1] - counts[start]
        means.append((totals[place + 1] - totals[start]) / count if count and place <= last else None)
    return means


def _last(values: Values) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


_Value = TypeVar("_Value")


def _spread(values: Sequence[_Value], slots: int) -> list[_Value]:
    """The value at the end of each of so many slots of equal width; where there are fewer values, in steps."""
    return [values[((slot + 1) * len(values) - 1) // slots] for slot in range(slots)]


def _losses(points: Sequence[TimelinePoint], losses: Sequence[tuple[float, float]], count: int) -> list[float | None]:
    """The mean loss of each slot, or the one before where none was logged; what was logged before the first point or
    after the last is in that one.
    """
    ends = [point.at + point.seconds for point in points]
    slots: list[list[float]] = [[] for _ in range(count)]
    for at, loss in losses:
        place = min(bisect_left(ends, at), len(points) - 1)
        slots[min(count - 1, place * count // len(points))].append(loss)
    means = [fmean(slot) if slot else None for slot in slots]
    return [*accumulate(means, lambda before, mean: before if mean is None else mean)]


def _plot(chart: _Chart, rows: int) -> list[Text]:
    if all(value is None for line in chart.lines for value in line):
        return [Text(" " * _LABEL + ("nothing is scored yet" if row == 0 else ""), LABEL) for row in range(rows)]
    low, high = chart.axis
    looks = _LOOKS if len(chart.lines) > 1 else ((chart.style, "", 1, 1),)
    layers = [
        (curve(line, rows, low, high, period=period, drawn=drawn), style)
        for line, (style, _, period, drawn) in zip(chart.lines, looks, strict=False)
    ]
    if any(chart.bounds):
        layers.append((band(chart.bounds, rows, low, high), LABEL))
    names = _ticks(low, high, rows)
    lines: list[Text] = []
    for row, cells in enumerate(drawing(layers)):
        tick = "┤" if row in names else "│"
        lines.append(Text.assemble((f"{names.get(row, ''):>{_LABEL - 1}}{tick}", LABEL), cells))
    return lines


def _ticks(low: float, high: float, rows: int) -> dict[int, str]:
    """Row → the value there, with as many digits as tell the values apart; none twice."""
    values = {0: high, rows - 1: low}
    if rows >= 5 and rows % 2:
        values[rows // 2] = (low + high) / 2
    digits = next(
        (each for each in (2, 3, 4) if len({_name(value, each) for value in values.values()}) == len(values)), 4
    )
    words = {_name(value, digits): row for row, value in reversed(values.items())}
    return {row: word for word, row in words.items()}


def _axis(low: float, high: float) -> tuple[float, float]:
    """The axis for rewards: 0 to 1, or -1 to 1, if all lie there, else what they span."""
    if low > high:
        return 0.0, 1.0
    if low >= -1 and high <= 1:
        return (0.0 if low >= 0 else -1.0), 1.0
    return (low, high) if low < high else (low - max(1.0, abs(low)) * 0.1, high + max(1.0, abs(high)) * 0.1)


def _range(known: Sequence[float]) -> tuple[float, float]:
    """The axis range: 0 to 1 if shares differ widely or not at all, else a little more than the values span."""
    low, high = min(known), max(known)
    is_share = low >= 0 and high <= 1
    if is_share and (high - low > _NARROWEST_RANGE or low == high):
        return 0.0, 1.0
    slack = (high - low) * 0.1 or max(1.0, abs(low)) * 0.1
    low, high = low - slack, high + slack
    return (max(0.0, low), min(1.0, high)) if is_share else (low, high)


def _name(value: float, digits: int = 2) -> str:
    if abs(value) >= 1e99:
        return "huge" if value > 0 else "-huge"
    if abs(value) >= 1e4 or 0 < abs(value) < 0.01:
        return f"{value:.0e}"
    return f"{value:.{digits}f}" if abs(value) < 100 else f"{value:.0f}"


def _axis_line(points: Sequence[TimelinePoint], columns: int) -> Text:
    line = "└" + "─" * (columns - 1)
    finished = sum(point.finished for point in points)
    marks = {0: "0", columns: amounts.count(finished, "rollout") if columns >= 24 else f"{finished:,}"}
    if columns >= 48:
        marks[columns // 2] = f" speed: up to {speed(_peak(points))} "
    for at, words in marks.items():
        start = 1 if at == 0 else at - len(words) if at == columns else at - len(words) // 2
        line = line[:start] + words + line[start + len(words) :]
    return Text(" " * (_LABEL - 1) + line, LABEL)


def _speeds(points: Sequence[TimelinePoint], columns: int) -> Text:
    """Rollouts a second around the end of each point, over a fortieth of the time."""
    ends = [points[0].at, *(point.at + point.seconds for point in points)]
    totals = list(accumulate((point.finished for point in points), initial=0))

    def done_by(moment: float) -> float:
        place = bisect_right(ends, moment)
        if place == len(ends):
            return totals[-1]
        start, end = ends[place - 1], ends[place]
        return totals[place - 1] + (totals[place] - totals[place - 1]) * (moment - start) / (end - start)

    half = (ends[-1] - ends[0]) / _SMOOTHING / 2
    found: list[float] = []
    for end in ends[1:]:
        begin, stop = max(ends[0], end - half), min(ends[-1], end + half)
        found.append((done_by(stop) - done_by(begin)) / (stop - begin) if stop > begin else 1.0)
    return Text.assemble((f"{'speed':>{_LABEL - 1}} ", LABEL), (spark(_spread(found, columns)), "magenta"))


def _peak(points: Sequence[TimelinePoint]) -> float | None:
    """The most rollouts a second over a second or more; of a shorter run, over all of it."""
    best, seconds, finished = 0.0, 0.0, 0
    for point in points:
        seconds, finished = seconds + point.seconds, finished + point.finished
        if seconds >= 1:
            best, seconds, finished = max(best, finished / seconds), 0.0, 0
    whole = sum(point.seconds for point in points)
    return best or (sum(point.finished for point in points) / whole if whole else None)
