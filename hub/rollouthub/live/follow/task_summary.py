"""Figures over the tasks of a followed run, with intervals; computed again only when enough is new."""

from rollouthub.live.follow.run_feed import RunFeed
from rollouthub.statistics.pass_at_k import GroupSummary, summarise_groups

_PART = 50


class TaskSummary:
    """pass@k, avg@k and means of a run; of a live one computed again when a fiftieth more is scored."""

    def __init__(self, most_live: int, most_ended: int) -> None:
        """`most_live` and `most_ended` are the most attempts of a run that plays, and of one that has ended, for which
        the figures are computed.
        """
        self._most = (most_ended, most_live)
        self._summary: GroupSummary | None = None
        self._known: tuple[object, int] = (None, 0)
        """The state of the run at which `_summary` was computed, and the number of scored samples."""

    def of(self, feed: RunFeed) -> GroupSummary | None:
        """The figures; None for a run that is too large, and before anything has ended."""
        scored, plays = feed.counts.scored, feed.info.status == "running"
        if len(feed.columns) > self._most[plays]:
            return None
        key, (known, at) = (feed.columns.generation, plays), self._known
        if known != key or scored < at or scored > at + at // _PART:
            groups = feed.groups.alike()
            self._summary = summarise_groups(groups).overall if groups else None
            self._known = key, scored
        return self._summary
