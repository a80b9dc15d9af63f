"""The comparisons of filters, bound to the columns of a run."""

import operator
from array import array
from collections.abc import Callable, Iterable
from math import inf
from typing import Protocol

from rollouthub.live.follow.attempt_columns import Value
from rollouthub.live.follow.note_columns import NOTE_KINDS, noted_flag, noted_texts
from rollouthub.live.follow.word_column import WordColumn
from rollouthub.store.notes import RolloutNotes

Predicate = Callable[[int], bool]
"""Whether the row at an index matches."""


class FilteredColumns(Protocol):
    """The columns that a filter is bound to, by name: of the attempts of a run (`AttemptColumns`), or of other rows."""

    words: dict[str, WordColumn]
    texts: dict[str, list[str]]
    numbers: dict[str, "array[float]"]
    wholes: dict[str, "array[int]"]
    flags: dict[str, "array[int]"]

    def value(self, name: str, place: int) -> Value:
        """The value of one cell; None where it is absent."""
        ...

    def notes_at(self, place: int) -> RolloutNotes:
        """The notes on a row."""
        ...


Binding = Callable[[FilteredColumns], Predicate]

ORDERS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Comparison operators of numbers."""


def always(place: int) -> bool:
    """Matches every row."""
    return True


def joined(bindings: list[Binding], *, is_any: bool) -> Binding:
    """Predicates combined by AND or by OR."""

    def bind(columns: FilteredColumns) -> Predicate:
        predicates = [binding(columns) for binding in bindings]

        def holds(place: int) -> bool:
            for predicate in predicates:
                if predicate(place) == is_any:
                    return is_any
            return not is_any

        return holds

    return bind


def negated(binding: Binding) -> Binding:
    """Matches the rows that a predicate does not match."""

    def bind(columns: FilteredColumns) -> Predicate:
        predicate = binding(columns)
        return lambda place: not predicate(place)

    return bind


def flag_is(column: str, wanted: bool) -> Binding:
    """Compares a boolean column; a row without a value matches neither true nor false."""

    if column in NOTE_KINDS:
        return lambda columns: lambda place: noted_flag(column, columns.notes_at(place)) == wanted

    def bind(columns: FilteredColumns) -> Predicate:
        flags, number = columns.flags[column], int(wanted)
        return lambda place: flags[place] == number

    return bind


def is_absent(column: str, wanted: bool) -> Binding:
    """Matches rows without a value in a column, or with `wanted` False rows that have one."""

    return lambda columns: lambda place: (columns.value(column, place) is None) == wanted


def number_is(column: str, sign: str, wanted: float) -> Binding:
    """Compares a number; a row without a value never matches."""

    compare = ORDERS[sign]

    def bind(columns: FilteredColumns) -> Predicate:
        if column in columns.wholes:
            wholes = columns.wholes[column]
            return lambda place: compare(wholes[place], wanted)
        numbers = columns.numbers[column]
        # Not a number is absent; only != would hold of it.
        return lambda place: compare(number := numbers[place], wanted) and -inf <= number

    return bind


def text_is(column: str, sign: str, wanted: str) -> Binding:
    """Compares a text; a row without a value never matches. One with several matches `==` and `~` if any of them does,
    `!=` and `!~` if all do.
    """

    folded = wanted.casefold()
    tests: dict[str, Callable[[str], bool]] = {
        "==": lambda text: text == wanted,
        "!=": lambda text: text != wanted,
        "~": lambda text: folded in text.casefold(),
        "!~": lambda text: folded not in text.casefold(),
    }
    test = tests[sign]
    if column in NOTE_KINDS:
        return _of_notes(column, test, all if sign.startswith("!") else any)

    def bind(columns: FilteredColumns) -> Predicate:
        if column in columns.words:
            return _by_word(columns.words[column], test)
        texts = columns.texts[column]
        return lambda place: test(texts[place])

    return bind


def _of_notes(column: str, test: Callable[[str], bool], quantifier: Callable[[Iterable[bool]], bool]) -> Binding:
    def bind(columns: FilteredColumns) -> Predicate:
        def holds(place: int) -> bool:
            texts = noted_texts(column, columns.notes_at(place))
            return bool(texts) and quantifier(map(test, texts))

        return holds

    return bind


def _by_word(words: WordColumn, test: Callable[[str], bool]) -> Predicate:
    """Tests each distinct word once, however many rows have it."""
    verdicts = bytearray()
    codes, vocabulary = words.codes, words.vocabulary

    def holds(place: int) -> bool:
        code = codes[place]
        if code >= len(verdicts):
            verdicts.extend([test(word) for word in vocabulary[len(verdicts) :]])
        return code >= 0 and bool(verdicts[code])

    return holds
