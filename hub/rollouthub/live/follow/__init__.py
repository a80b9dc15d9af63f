"""Read-only views of a run, or of this machine's runs; an update reads only what is new."""

from rollouthub.live.follow.filter import FilterError, RolloutFilter, parse_filter
from rollouthub.live.follow.known_runs import RunsFeed, SeenRun
from rollouthub.live.follow.rollout_view import RolloutList
from rollouthub.live.follow.run_feed import RunFeed, RunProgress

__all__ = [
    "FilterError",
    "RolloutFilter",
    "RolloutList",
    "RunFeed",
    "RunProgress",
    "RunsFeed",
    "SeenRun",
    "parse_filter",
]
