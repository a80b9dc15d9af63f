"""A column of words that come again and again: each is kept once, a row keeps its number."""

from array import array
from collections.abc import Iterable

ABSENT = -1


class Words:
    """Words by row; None where a row has none."""

    def __init__(self) -> None:
        self.codes = array("i")
        """A row's word, as its place in `vocabulary`; -1 where it has none."""
        self.vocabulary: list[str] = []
        """The words, in the order they were met."""
        self._places: dict[str | None, int] = {None: ABSENT}

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> str | None:
        code = self.codes[row]
        return None if code < 0 else self.vocabulary[code]

    def extend(self, words: Iterable[str | None]) -> None:
        """Append rows."""
        places = self._places
        seen = tuple(words)
        for word in dict.fromkeys(seen):
            if word not in places:
                if not isinstance(word, str):
                    raise TypeError(f"{word!r} is no text")
                places[word] = len(self.vocabulary)
                self.vocabulary.append(word)
        self.codes.extend(map(places.__getitem__, seen))

    def code(self, word: str) -> int:
        """The place of a word in the vocabulary; -1 where no row has it."""
        return self._places.get(word, ABSENT)
