"""How the texts of a rollout are made fit to show: harmless, and no longer than a display takes."""

from collections.abc import Callable
from dataclasses import dataclass

from rollouthub.text import plain_name, printable
from rollouthub.views.cards.blocks import MediaBlock

MOST_CHARACTERS = 100_000
"""Most characters of one text, by default."""

MOST_CARDS = 400
"""Most messages, and most calls, of one turn, by default."""

CutText = tuple[str, int]
"""A text and the number of characters that are left out after it."""


def cut_text(text: str, most: int) -> CutText:
    """The printable beginning of a text."""
    shown = printable(text[:most])
    return shown, max(0, len(text) - most)


def _media(mime_type: str, digest: str) -> MediaBlock:
    return MediaBlock(plain_name(mime_type), digest)


@dataclass(frozen=True)
class CardText:
    """What a display does with each text, name and medium. The defaults fit a page on the user's own machine."""

    cut: Callable[[str, int], CutText] = cut_text
    """Makes a text harmless, and cuts it to a number of characters."""
    ours: Callable[[str, int], CutText] = cut_text
    """The same for messages of the machine that played, such as those of faults."""
    name: Callable[[str], str] = plain_name
    """Makes a name harmless, on one line."""
    media: Callable[[str, str], MediaBlock] = _media
    """Finds a medium by its MIME type and digest."""
    most: int = MOST_CHARACTERS
    """Most characters of one text."""
    most_cards: int = MOST_CARDS
    """Most messages, and most calls, of one turn."""

    def __call__(self, text: str) -> CutText:
        """The text as it is shown, and how many characters of it are not."""
        return self.cut(text, self.most)

    def told(self, text: str) -> CutText:
        """A message of the machine that played."""
        return self.ours(text, self.most)

    def line(self, text: str) -> str:
        """A text that is short."""
        return self.cut(text, self.most)[0]
