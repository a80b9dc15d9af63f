"""Figures that are kept up to date at the cost of what is new."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from rollouthub.live.follow.attempt_columns import AttemptColumns


class IncrementalView(ABC):
    """Derives something of a run's rows; asked to catch up before it is read."""

    def __init__(self, columns: AttemptColumns) -> None:
        self._columns = columns
        self._generation = -1
        self._seen = self._withdrawn = 0

    def catch_up(self) -> None:
        """Take in the rows that were added, and withdrawn, since the last time."""
        columns = self._columns
        if self._generation != columns.generation:
            self._generation, self._seen, self._withdrawn = columns.generation, 0, 0
            self._clear()
        if self._withdrawn < len(columns.withdrawn):
            # A row that was withdrawn before it was seen is met as it is now.
            places = [place for place in columns.withdrawn[self._withdrawn :] if place < self._seen]
            self._withdrawn = len(columns.withdrawn)
            self._withdraw_all(places)
        if self._seen < len(columns):
            start, self._seen = self._seen, len(columns)
            self._add(start, self._seen)

    @abstractmethod
    def _clear(self) -> None:
        """Begin anew."""

    @abstractmethod
    def _add(self, start: int, stop: int) -> None:
        """Take in a stretch of rows."""

    def _withdraw_all(self, places: Sequence[int]) -> None:
        for place in places:
            self._withdraw(place)

    @abstractmethod
    def _withdraw(self, place: int) -> None:
        """A row that was taken in as effective no longer is: a later attempt counts for its sample."""
