"""The list that a rollout was opened from: where in it the rollout is, and which others are next to it."""

from rollouthub.live.follow import RolloutList, RunFeed


class SourceList:
    """A list of rollouts, and the position in it of the one that is shown."""

    def __init__(self, rows: RolloutList | None) -> None:
        """`rows` is None for a rollout that was opened from no list."""
        self.rows = rows
        self._last = 0
        """Position of the rollout when it was last in the list."""

    def words(self, place: int | None) -> str:
        """The position of a row in words; empty if it is not in the list."""
        at = self.rows.position(place) if self.rows is not None and place is not None else None
        if at is None or self.rows is None:
            return ""
        self._last = at
        return f"{at + 1:,} of {len(self.rows):,}"

    def beside(self, place: int | None, step: int) -> int | None:
        """The next or previous row, for a row that is not in the list the first one; None if there is none."""
        if self.rows is None:
            return None
        self.rows.catch_up()
        at = self.rows.position(place) if place is not None else None
        wanted = (at if at is not None else -1) + step
        return self.rows[wanted] if 0 <= wanted < len(self.rows) else None

    def next_unreviewed(self, feed: RunFeed, place: int) -> int | None:
        """The row after this one that nobody reviewed, wrapping around; None without any. Of a row that has left the
        list, its last position counts.
        """
        if self.rows is None:
            return None
        self.rows.catch_up()
        at = self.rows.position(place)
        start = self._last if at is None else at + 1
        following = [*self.rows.page(start, len(self.rows)), *self.rows.page(0, start)]
        return next((each for each in following if not feed.columns.notes_at(each).is_reviewed), None)
