"""Searches a document for a pattern."""

import re
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

# It has no types of its own. Unlike `re`, it gives up an expression that takes forever.
import regex  # pyright: ignore[reportMissingTypeStubs]

from rollouthub.live.follow.transcript_search import LONGEST, PatternError, compile_pattern
from rollouthub_tui.widgets.rollout.document import Section

MOST_MATCHES = 5000
PATIENCE_SECONDS = 0.5
"""Most seconds for a search, during which the screen stands still; the matches found by then are shown."""


@dataclass(frozen=True, slots=True, order=True)
class Match:
    """The position of a match: index of its section and piece, and range in the piece's text."""

    section: int
    piece: int
    start: int
    end: int


def pattern_of(text: str) -> re.Pattern[str]:
    """The text as a regular expression, or as literal text if it is no valid one; case matters if it has a capital
    letter.
    """
    try:
        return compile_pattern(text)
    except PatternError:
        return compile_pattern(re.escape(text[: LONGEST // 2]))


@dataclass(frozen=True)
class Matches:
    """The matches of a pattern, in order."""

    pattern: re.Pattern[str]
    found: Sequence[Match]
    is_all: bool
    """Whether these are all matches: neither the time nor the number of matches was exceeded."""

    @classmethod
    def of(cls, pattern: re.Pattern[str], sections: Sequence[Section]) -> "Matches":
        """Search a document, folded parts included."""
        patient, found = _patient(pattern), list[Match]()
        until = time.monotonic() + PATIENCE_SECONDS
        try:
            for place, section in enumerate(sections):
                for number, piece in enumerate(section.pieces):
                    for start, end in _spans(patient, piece.text, max(0.001, until - time.monotonic())):
                        found.append(Match(place, number, start, end))
                        if len(found) >= MOST_MATCHES:
                            return cls(pattern, found, is_all=False)
        except TimeoutError:
            return cls(pattern, found, is_all=False)
        return cls(pattern, found, is_all=True)

    def within(self, section: int, piece: int, start: int, end: int) -> list[tuple[int, int]]:
        """The matches in a row, as ranges within the row."""
        shown: list[tuple[int, int]] = []
        at = bisect_left(self.found, Match(section, piece, start, start))
        at -= at > 0  # the one before may reach into the row
        for match in self.found[at:]:
            if match >= Match(section, piece, end, 0):
                break
            if (match.section, match.piece) == (section, piece) and match.end > start:
                shown.append((max(0, match.start - start), min(end, match.end) - start))
        return shown


def _patient(pattern: re.Pattern[str]) -> Any:
    """The expression for the `regex` engine, which has a time limit; as literal text if that engine does not accept
    it.
    """
    flags = regex.MULTILINE | (regex.IGNORECASE if pattern.flags & re.IGNORECASE else 0)
    try:
        return cast(Any, regex).compile(pattern.pattern, flags)
    except regex.error:
        return cast(Any, regex).compile(regex.escape(pattern.pattern), flags)


def _spans(pattern: Any, text: str, seconds: float) -> Iterator[tuple[int, int]]:
    for match in pattern.finditer(text, timeout=seconds):
        if match.end() > match.start():
            yield match.span()
