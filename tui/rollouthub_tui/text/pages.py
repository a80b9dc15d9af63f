"""Long texts, shown page by page."""

from collections.abc import Iterable, Iterator, Sequence

PAGE_LINES = 20
"""Lines of a list on a page."""
_LONGEST_STRETCH = 40


class Pages:
    """A text in pages, such as the turns of a conversation, each shown on request."""

    def __init__(self, stretches: Iterable[Sequence[str]] = ()) -> None:
        self._pages = _pages(stretches)
        self._next = next(self._pages, None)

    @property
    def has_more(self) -> bool:
        """Whether pages are left."""
        return self._next is not None

    def turn(self) -> Sequence[str]:
        """The lines of the next page; none if there is none."""
        page, self._next = self._next, next(self._pages, None)
        return page or ()


def in_pages(lines: Iterable[str]) -> Iterator[Sequence[str]]:
    """The lines of a list, grouped into pages."""
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
