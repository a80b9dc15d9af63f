"""What is read a page at a time."""

from collections.abc import Iterable, Iterator, Sequence

PAGE_LINES = 20
"""Of a list."""
_LONGEST_STRETCH = 40


class Pages:
    """Stretches of lines, such as the turns of a conversation, one for each time that somebody wants more."""

    def __init__(self, stretches: Iterable[Sequence[str]] = ()) -> None:
        self._pages = _pages(stretches)
        self._next = next(self._pages, None)

    @property
    def has_more(self) -> bool:
        """Whether something is left."""
        return self._next is not None

    def turn(self) -> Sequence[str]:
        """The next page; without lines where nothing is left."""
        page, self._next = self._next, next(self._pages, None)
        return page or ()


def in_pages(lines: Iterable[str]) -> Iterator[Sequence[str]]:
    """A list's lines, so many at a time."""
    page: list[str] = []
    for line in lines:
        page.append(line)
        if len(page) == PAGE_LINES:
            yield page
            page = []
    if page:
        yield page


def _pages(stretches: Iterable[Sequence[str]]) -> Iterator[Sequence[str]]:
    for stretch in stretches:
        for start in range(0, len(stretch), _LONGEST_STRETCH):
            yield stretch[start : start + _LONGEST_STRETCH]
