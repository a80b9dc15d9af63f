"""The progress of a run in one line."""

from rich.text import Text

from rollouthub.live.follow.run_feed import RunProgress
from rollouthub.statistics import amounts
from rollouthub.views.terminal.run_status import standing, status_text
from rollouthub.views.terminal.text_fit import GAP, LABEL

_LEAST_BAR, _MOST_BAR = 10, 60


def progress_line(progress: RunProgress, width: int, state: str | None = None, *, has_status: bool = True) -> Text:
    """A bar, done and planned rollouts, speed and time left; if they do not fit, the least important are dropped."""
    parts = _parts(progress, state if has_status else None, has_status=has_status)
    share = progress.share
    need = _LEAST_BAR + len(GAP) if share is not None else 0
    kept = [part for _, part in parts]
    for worth in sorted((worth for worth, _ in parts), reverse=True):
        if need + _length(kept) <= width:
            break
        kept = [part for each, part in parts if each < worth]
    if share is not None:
        room = width - _length(kept) - (len(GAP) if kept else 0)
        if room >= 3:
            style = standing(progress.status, state).style
            kept.insert(1 if has_status else 0, share_bar(share, min(room, _MOST_BAR), style))
    line = Text(GAP).join(kept)
    line.truncate(width)
    return line


def share_bar(share: float, width: int, style: str) -> Text:
    """A thin bar whose remainder is lighter; it is full only for a share of 1."""
    halves = min(int(share * width * 2), width * 2 - (share < 1))
    done = "━" * (halves // 2) + "╸" * (halves % 2)
    return Text.assemble((done, style), ("─" * (width - len(done)), LABEL))


def _parts(progress: RunProgress, state: str | None, *, has_status: bool) -> list[tuple[int, Text]]:
    """The parts of the line in display order, each with its rank; 0 is the most important."""
    planned = amounts.NONE if progress.planned is None else f"{progress.planned:,}"
    is_on = progress.status == "running"
    parts = [(1, status_text(progress.status, state))] if has_status else []
    parts.append((0, Text(f"{progress.done:,}/{planned}", "bold")))
    if progress.share is not None:
        parts.append((5, Text(_percent(progress.share))))
    parts.append((3, Text(f"{speed(progress.rate)}")))
    if is_on and progress.share != 1:
        parts.append((2, Text.assemble(("ETA ", LABEL), amounts.clock(progress.eta_seconds))))
    took = amounts.clock(progress.seconds) if is_on else amounts.elapsed(progress.seconds)
    parts.append((4, Text.assemble(("for " if is_on else "in ", LABEL), took)))
    if progress.in_flight and is_on:
        parts.append((6, Text.assemble(f"{progress.in_flight:,}", (" in flight", LABEL))))
    return parts


def speed(rate: float | None) -> str:
    """Format rollouts per second; slow rates are given per minute or hour."""
    if rate is None:
        return f"{amounts.NONE}/s"
    for unit, scale in (("s", 1), ("min", 60)):
        if rate * scale >= 1:
            return f"{rate * scale:,.1f}/{unit}"
    return f"{rate * 3600:,.1f}/h"


def _percent(share: float) -> str:
    return f"{int(share * 1000) / 10:.1f}%"  # never 100 % before all is done


def _length(parts: list[Text]) -> int:
    return sum(part.cell_len for part in parts) + len(GAP) * max(0, len(parts) - 1)
