"""What a live view reads: a run, or the runs of this machine, followed read-only at the cost of what is new."""

from envhub.watching.feed import Progress, RunFeed
from envhub.watching.filter import Filter, FilterError, parse_filter
from envhub.watching.runs import RunsFeed, SeenRun
from envhub.watching.view import RolloutList

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
