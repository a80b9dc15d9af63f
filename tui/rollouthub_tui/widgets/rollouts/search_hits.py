"""The matches found so far by a search of the transcripts."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from rollouthub.errors import HubError
from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.transcript_search import Found, Match, place_of, search_transcripts
from rollouthub.statistics.amounts import count
from rollouthub.text import plain_name


class Hits:
    """Searches a run's transcripts, and those that are added later."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern
        self.by_place: dict[int, Match] = {}
        self.searched = 0
        self.problem: str | None = None
        self.is_searching = False
        self.version = 0
        """Grows whenever matches are added."""
        self._last: int = 0
        self._slow = 0
        self._unplaced: list[Match] = []

    async def look_through(self, directory: Path) -> None:
        """Search the transcripts that were not searched yet."""
        self.is_searching = True
        try:
            stretches: AsyncGenerator[Found] = search_transcripts(directory, self.pattern, after=self._last)
            async with aclosing(stretches):
                async for found in stretches:
                    self.searched += found.searched
                    self._last = found.last
                    self._slow += len(found.slow)
                    self._unplaced += found.matches
        except (HubError, OSError) as error:
            self.problem = str(error)
        finally:
            self.is_searching = False

    def settle(self, columns: AttemptColumns) -> bool:
        """Find the indices of matches whose records were read meanwhile; returns whether there are any."""
        if not self._unplaced:
            return False
        waiting: list[Match] = []
        for match in self._unplaced:
            place = place_of(columns, match.row_id)
            if place is None:
                waiting.append(match)
            else:
                self.by_place[place] = match
        is_new = len(waiting) < len(self._unplaced)
        self._unplaced = waiting
        self.version += is_new
        return is_new

    def words(self, total: int) -> str:
        """The number of matches, and how many of `total` transcripts are searched; or why the search ended."""
        if self.problem is not None:
            return plain_name(self.problem)
        said = f"{count(len(self.by_place), 'match').replace('matchs', 'matches')}"
        if self.is_searching:
            said += f", {self.searched:,} of {total:,} searched"
        return f"{said}, {self._slow} took too long" if self._slow else said
