"""Finds the line of a key in the text of an `env.toml`; tomllib gives no positions."""

import re
from collections.abc import Iterator, Sequence


class TomlPlaces:
    """Line numbers of the sections and keys of one TOML text, found for common forms of TOML only."""

    def __init__(self, text: str) -> None:
        self._lines: dict[str, int] = {}
        section = ""
        for number, line in enumerate(text.splitlines(), start=1):
            if header := re.match(r"\s*\[\s*([\w.\"-]+?)\s*\]", line):
                section = header[1].replace('"', "") + "."
                self._lines.setdefault(section[:-1], number)
            elif pair := re.match(r"\s*([\w.\"'-]+)\s*=", line):
                self._lines.setdefault(section + re.sub("[\"']", "", pair[1]), number)

    def line(self, place: Sequence[str]) -> int:
        """The line number of a key; else of the nearest section around it; else 1."""
        return next((self._lines[found] for found in _outwards(place) if found in self._lines), 1)


def _outwards(place: Sequence[str]) -> Iterator[str]:
    """Yield the dotted path of a key, then of each section around it."""
    for length in range(len(place), 0, -1):
        yield ".".join(place[:length])
