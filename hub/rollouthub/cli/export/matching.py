"""The rollouts of a run that match a filter, for an export."""

from pathlib import Path

from rollouthub.live.follow.run_feed import RunFeed


def matching(run: Path, where: str, *, effective: bool) -> frozenset[tuple[str, int]] | None:
    """Rollout ids and attempts that match a filter expression; None for all, without one.

    Raises:
        FilterError: the filter is not valid.
        RunDirectoryError, StoreError: the run cannot be read.
    """
    if not where.strip():
        return None
    with RunFeed(run) as feed:
        feed.refresh()
        found = feed.rollouts(where=where, effective=effective)
        ids, attempts = feed.columns.texts["rollout_id"], feed.columns.wholes["attempt"]
        return frozenset((ids[place], attempts[place]) for place in found.page(0, len(found)))
