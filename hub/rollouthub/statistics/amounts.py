"""Formats numbers for people; a missing one is a dash, never a zero."""

import time
from collections.abc import Callable
from typing import Protocol

from rollouthub.statistics.intervals import Estimate

NONE = "–"


def number(value: float | None) -> str:
    """Format a reward."""
    return NONE if value is None else f"{value:.3f}" if abs(value) < 1e6 else f"{value:.4g}"


def share(value: float | None) -> str:
    """Format a share as a percentage."""
    return NONE if value is None else f"{value:.1%}"


def p_value(p: float | None) -> str:
    """Format a p-value."""
    return NONE if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def seconds(value: float | None) -> str:
    """Format a duration given in seconds."""
    if value is None:
        return NONE
    if value < 1:
        return f"{value * 1e3:.2f} ms"
    if value < 120:
        return f"{value:.2f} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def dollars(value: float | None) -> str:
    """Format a cost in US dollars."""
    if value is None:
        return NONE
    return f"${value:,.2f}" if value >= 1 else f"${value:.4g}"


def moment(at: float | None) -> str:
    """Format a time of day, the same everywhere."""
    if at is None:
        return NONE
    try:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
    except (OverflowError, OSError, ValueError):
        return NONE


def size(value: float) -> str:
    """Format a count that may be fractional, such as a quantile."""
    return f"{value:,.0f}"


def count(number: int, noun: str) -> str:
    """Format a number with its noun, singular or plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def short(count: int | None) -> str:
    """Format a large count in few characters."""
    if count is None:
        return NONE
    for unit, scale in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= scale:
            return f"{count / scale:.1f}{unit}"
    return str(count)


def clock(value: float | None) -> str:
    """Format a duration as minutes and seconds, with hours if there are any."""
    if value is None:
        return NONE
    hours, minutes = divmod(round(value) // 60, 60)
    seconds_left = round(value) % 60
    return f"{hours}:{minutes:02}:{seconds_left:02}" if hours else f"{minutes}:{seconds_left:02}"


def elapsed(value: float | None) -> str:
    """Format how long something took that may take hours: as a clock does, and with its unit below a minute."""
    return seconds(value) if value is None or value < 60 else clock(value)


def turn_number(index: int) -> str:
    """Name a turn by its number, which counts from 1 for people; its index counts from 0."""
    return f"turn {index + 1}"


def signed(value: float | None) -> str:
    """Format a difference with its sign."""
    return NONE if value is None else f"{value:+.3f}"


class Ranged(Protocol):
    """A figure with a 95 % interval, whose ends are None where it is unknown."""

    @property
    def low(self) -> float | None: ...

    @property
    def high(self) -> float | None: ...


def interval(found: Ranged | None, write: Callable[[float | None], str] = number) -> str:
    """Format an interval alone, in brackets; empty without one."""
    if found is None or found.low is None or found.high is None:
        return ""
    low, high = write(found.low), write(found.high)
    # A dash before a sign would not be read as one.
    between = " to " if low[0] in "+-" or high[0] in "+-" else "–"
    return f"({low}{between}{high})"


def estimate(value: float | None, found: Ranged | None, write: Callable[[float | None], str] = number) -> str:
    """Format a figure followed by its interval."""
    return NONE if value is None else f"{write(value)} {interval(found, write)}".rstrip()


def of_all(some: int, every: int) -> str:
    """Format how many of all count, and only their number if all of them do."""
    return f"{some:,}" if some == every else f"{some:,} of {every:,}"


def interval_and_tasks(found: Estimate, write: Callable[[float | None], str] = number) -> str:
    """Format an interval, and over how many tasks it is, where some have too few samples; empty without either."""
    some = f"{of_all(found.tasks, found.tasks + found.excluded)} tasks" if found.excluded else ""
    return ", ".join(part for part in (interval(found, write), some) if part)
