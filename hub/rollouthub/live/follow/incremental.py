"""Base class of figures whose update takes time proportional to the new rows."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from rollouthub.live.follow.attempt_columns import AttemptColumns


class IncrementalView(ABC):
    """Figures derived from a run's rows; `catch_up` must be called before they are read."""

    def __init__(self, columns: AttemptColumns) -> None:
        self._columns = columns
        self._generation = -1
        self._seen = self._withdrawn = 0

    def catch_up(self) -> None:
        """Process the rows that were added, or stopped being effective, since the last call."""
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
        """Reset the figures."""

    @abstractmethod
    def _add(self, start: int, stop: int) -> None:
        """Add a range of rows."""

    def _withdraw_all(self, places: Sequence[int]) -> None:
        for place in places:
            self._withdraw(place)

    @abstractmethod
    def _withdraw(self, place: int) -> None:
        """Remove an effective row, because a later attempt at its sample now counts."""
