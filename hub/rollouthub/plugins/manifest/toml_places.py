"""Where in the text of an `env.toml` a key stands; tomllib tells no places."""

import re
from collections.abc import Iterator, Sequence


class TomlPlaces:
    """The lines of the keys of one text, for the plain forms people write."""

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
        """The line of a key, or of the section around it, or the first."""
        return next((self._lines[found] for found in _outwards(place) if found in self._lines), 1)


def _outwards(place: Sequence[str]) -> Iterator[str]:
    """A key, then the sections around it."""
    for length in range(len(place), 0, -1):
        yield ".".join(place[:length])
