"""What a search of the transcripts has found so far."""

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
    """Goes through a run's transcripts, and goes on where the run does."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern
        self.by_place: dict[int, Match] = {}
        self.searched = 0
        self.problem: str | None = None
        self.is_searching = False
        self.version = 0
        """Grows with what is found."""
        self._last: int = 0
        self._slow = 0
        self._unplaced: list[Match] = []

    async def look_through(self, directory: Path) -> None:
        """Search what was not searched yet."""
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
        """Find the places of matches whose rows were read meanwhile; whether there are any."""
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
        """How far it is."""
        if self.problem is not None:
            return plain_name(self.problem)
        said = f"{count(len(self.by_place), 'match').replace('matchs', 'matches')}"
        if self.is_searching:
            said += f", {self.searched:,} of {total:,} searched"
        return f"{said}, {self._slow} took too long" if self._slow else said
