"""The words that judges gave beside the rewards of turns and seats, made harmless and short enough to show."""

from collections.abc import Iterator, Mapping
from itertools import islice

from pydantic import JsonValue

from rollouthub.score import Score
from rollouthub.text import one_line, plain_name

MOST_CHARACTERS = 2000
"""Most characters shown of the words on one turn or seat: as many as a `CreditJudge` gives."""
_MOST_JUDGES = 8
_DEEPEST = 4
"""Most rewards within one another that are searched for judges: the parts of a `WeightedReward` may be such again."""
_PARTS = frozenset({"team", "turns", "seats"})


class CreditWords:
    """What the judges of a score say, one line each; that of a judge that gave a part of the reward begins with the
    part's name.
    """

    def __init__(self, score: Score | None) -> None:
        self._judges = [] if score is None else list(islice(_judges(score.metadata), _MOST_JUDGES))

    @property
    def of_team(self) -> list[str]:
        """The words on the whole."""
        return self._found("team", None)

    def of_turn(self, index: int) -> list[str]:
        """The words on one turn."""
        return self._found("turns", str(index))

    def of_seat(self, seat: str) -> list[str]:
        """The words on one seat."""
        return self._found("seats", seat)

    def _found(self, part: str, name: str | None) -> list[str]:
        found: list[str] = []
        for judge, credit in self._judges:
            words = credit.get(part)
            if name is not None:
                words = words.get(name) if isinstance(words, dict) else None
            if isinstance(words, str) and (line := one_line(words, MOST_CHARACTERS)):
                found.append(f"{plain_name(judge)}: {line}" if judge else line)
        return found


def _judges(
    metadata: Mapping[str, JsonValue], judge: str = "", depth: int = 0
) -> Iterator[tuple[str, Mapping[str, JsonValue]]]:
    """The words of each judge in the metadata of a score or, below, of its parts; with the part's name."""
    for name, value in metadata.items():
        if not isinstance(value, dict):
            continue
        if name == "credit" and _PARTS & value.keys():
            yield judge, value
        elif depth < _DEEPEST:
            yield from _judges(value, name, depth + 1)
