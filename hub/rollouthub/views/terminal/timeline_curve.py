"""Mean reward, a trainer's loss, pass rate and speed over time."""

from collections.abc import Callable, Sequence
from itertools import accumulate
from statistics import fmean

from rich.text import Text

from rollouthub.live.follow.timeline import TimelinePoint
from rollouthub.statistics import amounts
from rollouthub.views.terminal.bar_blocks import spark
from rollouthub.views.terminal.curve import curve
from rollouthub.views.terminal.progress_line import speed
from rollouthub.views.terminal.text_fit import LABEL, stack

_LABEL = 7
_LEAST_ROWS = 3
_WINDOWS = 10
"""A mean on a curve is over the last one of so many parts of the time."""
_NARROWEST_RANGE = 0.4
"""Values between 0 and 1 that differ by more than this get an axis from 0 to 1."""


def timeline_chart(
    points: Sequence[TimelinePoint], width: int, height: int, losses: Sequence[tuple[float, float]] = ()
) -> Text:
    """Curves one above the other, with a common time axis and a sparkline of the speed.

    `losses` are those that the trainer logged, each with its time on the axis of `points`.
    """
    if not points or height < 1:
        return Text("nothing has finished yet", LABEL)
    columns = max(2, width - _LABEL)
    if height < _LEAST_ROWS + 2:
        return stack([_speeds(points, columns)])
    slots = _slots(points, 2 * columns)
    curves = [(title, style, _running_means(slots, sums)) for title, style, sums in _curves(points)]
    if losses:
        title = f"loss of the trainer, last {losses[-1][1]:.4g}"
        curves.insert(1, (title, "magenta", _losses(points, losses, len(slots))))
    room = height - 2
    curves = curves[: max(1, room // (_LEAST_ROWS + 1))]
    lines: list[Text] = []
    for place, (title, style, values) in enumerate(curves):
        rows = room // len(curves) + (place < room % len(curves)) - 1
        lines += [Text.assemble(" " * _LABEL, (title, f"bold {style}")), *_plot(values, rows, style)]
    lines += [_times(points, columns), _speeds(points, columns)]
    return stack(lines)


_Sums = Callable[[TimelinePoint], tuple[float, int]]


def _rewards(point: TimelinePoint) -> tuple[float, int]:
    return point.reward_sum, point.scored


def _verdicts(point: TimelinePoint) -> tuple[float, int]:
    return point.passed, point.judged


def _curves(points: Sequence[TimelinePoint]) -> list[tuple[str, str, _Sums]]:
    """The curves to draw: mean reward and pass rate, or one if both are equal or there are no verdicts."""
    if not any(point.judged for point in points):
        return [("mean reward of the last tenth", "cyan", _rewards)]
    if all(point.scored == point.judged and point.reward_sum == point.passed for point in points):
        return [("pass rate (the mean reward) of the last tenth", "cyan", _rewards)]
    return [("mean reward of the last tenth", "cyan", _rewards), ("pass rate of the last tenth", "green", _verdicts)]


def _slots(points: Sequence[TimelinePoint], count: int) -> list[list[TimelinePoint]]:
    """Points grouped into the time slots in which they are drawn."""
    first, seconds = points[0].at, _span(points)
    slots: list[list[TimelinePoint]] = [[] for _ in range(count)]
    for point in points:
        slots[min(count - 1, int((point.at - first) / seconds * count))].append(point)
    return slots


def _losses(points: Sequence[TimelinePoint], losses: Sequence[tuple[float, float]], count: int) -> list[float | None]:
    """The mean loss of each time slot, or the one before where none was logged; what was logged before the first slot
    or after the last is in that one.
    """
    first, seconds = points[0].at, _span(points)
    slots: list[list[float]] = [[] for _ in range(count)]
    for at, loss in losses:
        slots[int(min(max((at - first) / seconds, 0.0) * count, count - 1))].append(loss)
    means = [fmean(slot) if slot else None for slot in slots]
    return [*accumulate(means, lambda before, mean: before if mean is None else mean)]


def _span(points: Sequence[TimelinePoint]) -> float:
    return points[-1].at + points[-1].seconds - points[0].at


def _running_means(slots: Sequence[Sequence[TimelinePoint]], sums: _Sums) -> list[float | None]:
    """The mean over a tenth of the time up to each slot, so that a curve shows the trend and not each second's luck; a
    slot in which nothing was scored has none.
    """
    each = [_sum(slot, sums) for slot in slots]
    reach = max(1, len(slots) // _WINDOWS)
    means: list[float | None] = []
    for place, (_, own) in enumerate(each):
        window = each[max(0, place + 1 - reach) : place + 1]
        count = sum(scored for _, scored in window)
        means.append(sum(total for total, _ in window) / count if own else None)
    return means


def _sum(points: Sequence[TimelinePoint], sums: _Sums) -> tuple[float, int]:
    total, count = 0.0, 0
    for point in points:
        value, weight = sums(point)
        total, count = total + value, count + weight
    return total, count


def _plot(values: Sequence[float | None], rows: int, style: str) -> list[Text]:
    known = [value for value in values if value is not None]
    if not known:
        return [Text(" " * _LABEL + ("nothing is scored yet" if row == 0 else ""), LABEL) for row in range(rows)]
    low, high = _range(known)
    names = {0: high, rows - 1: low}
    if rows >= 5 and rows % 2:
        names[rows // 2] = (low + high) / 2
    digits = next(
        (each for each in (2, 3, 4) if len({_name(value, each) for value in names.values()}) == len(names)), 4
    )
    lines: list[Text] = []
    for row, cells in enumerate(curve(values, rows, low, high)):
        name = _name(names[row], digits) if row in names else ""
        tick = "┤" if row in names else "│"
        lines.append(Text.assemble((f"{name:>{_LABEL - 1}}{tick}", LABEL), (cells, style)))
    return lines


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


def _times(points: Sequence[TimelinePoint], columns: int) -> Text:
    seconds = _span(points)
    line = "└" + "─" * (columns - 1)
    marks = {0: amounts.clock(0), columns: amounts.clock(seconds)}
    if columns >= 40:
        marks[columns // 2] = f" speed: up to {speed(_peak(points))} "
    for at, words in marks.items():
        start = 1 if at == 0 else at - len(words) if at == columns else at - len(words) // 2
        line = line[:start] + words + line[start + len(words) :]
    return Text(" " * (_LABEL - 1) + line, LABEL)


def _speeds(points: Sequence[TimelinePoint], columns: int) -> Text:
    first, seconds = points[0], _span(points) / columns
    if seconds >= first.seconds:
        finished = [sum(point.finished for point in slot) for slot in _slots(points, columns)]
    else:  # a stretch spans several cells
        counts = {round((point.at - first.at) / first.seconds): point.finished for point in points}
        finished = [counts.get(int((cell + 0.5) * seconds / first.seconds), 0) for cell in range(columns)]
    return Text.assemble((f"{'speed':>{_LABEL - 1}} ", LABEL), (spark(finished), "magenta"))


def _peak(points: Sequence[TimelinePoint]) -> float | None:
    return max(point.finished / point.seconds for point in points) or None
