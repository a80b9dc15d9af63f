"""A column of repeated words: each distinct word is stored once, and each row stores its index."""

import struct
from array import array
from collections.abc import Sequence
from contextlib import suppress

ABSENT = -1


class _Places(dict[str | None, int]):
    """Word → its index; a new word gets the next index."""

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
    """A column of repeated words; a row without a word has None."""

    def __init__(self) -> None:
        self.codes = array("i")
        """Row → index of its word in `vocabulary`; -1 for a row without one."""
        self.vocabulary: list[str] = []
        """The distinct words, in the order of first occurrence."""
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
        """Index of a word in the vocabulary; -1 if no row has it."""
        return self._places.get(word, ABSENT)

    def rows(self, code: int) -> list[int]:
        """The rows of a word, in a time that is proportional to all rows, but short."""
        found: list[int] = []
        start = 0
        with suppress(ValueError):
            while True:
                start = self.codes.index(code, start) + 1
                found.append(start - 1)
        return found
