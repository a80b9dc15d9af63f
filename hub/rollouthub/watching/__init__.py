"""What a live view reads: a run, or the runs of this machine, followed read-only at the cost of what is new."""

from rollouthub.watching.feed import Progress, RunFeed
from rollouthub.watching.filter import Filter, FilterError, parse_filter
from rollouthub.watching.runs import RunsFeed, SeenRun
from rollouthub.watching.view import RolloutList

__all__ = [
    "Filter",
    "FilterError",
    "Progress",
    "RolloutList",
    "RunFeed",
    "RunsFeed",
    "SeenRun",
    "parse_filter",
]
