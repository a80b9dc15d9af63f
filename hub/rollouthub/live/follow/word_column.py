"""A column of words that come again and again: each is kept once, a row keeps its number."""

import struct
from array import array
from collections.abc import Sequence

ABSENT = -1


class _Places(dict[str | None, int]):
    """The place of each word; one that is new gets the next."""

    def __init__(self, vocabulary: list[str]) -> None:
        super().__init__({None: ABSENT})
        self._vocabulary = vocabulary

    def __missing__(self, word: str | None) -> int:
        if not isinstance(word, str):
            raise TypeError(f"{word!r} is no text")
        place = self[word] = len(self._vocabulary)
        self._vocabulary.append(word)
        return place


class WordColumn:
    """Words by row; None where a row has none."""

    def __init__(self) -> None:
        self.codes = array("i")
        """A row's word, as its place in `vocabulary`; -1 where it has none."""
        self.vocabulary: list[str] = []
        """The words, in the order they were met."""
        self._places = _Places(self.vocabulary)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> str | None:
        code = self.codes[row]
        return None if code < 0 else self.vocabulary[code]

    def extend(self, words: Sequence[str | None]) -> None:
        """Append rows."""
        # Packing numbers at a stroke takes an eighth of what appending them one by one does.
        self.codes.frombytes(struct.pack(f"{len(words)}i", *map(self._places.__getitem__, words)))

    def code(self, word: str) -> int:
        """The place of a word in the vocabulary; -1 where no row has it."""
        return self._places.get(word, ABSENT)
