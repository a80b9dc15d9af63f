"""Scans bytes on the agent's side for secrets, also in encoded forms."""

import base64
import re
from collections.abc import Iterable
from dataclasses import dataclass

SHORTEST = 6
"""Shortest secret, in characters, that is searched for; a shorter one may appear by coincidence."""


@dataclass(frozen=True)
class Watched:
    """A secret that must not appear in what agents see."""

    name: str
    """Name of the secret in the report, which never shows the secret itself."""
    text: str
    is_planted: bool = False
    """Whether it is a canary, which cannot appear by chance: also searched in encoded forms, and after the task was
    solved.
    """
    allowed_in: str = ""
    """Text that every agent may see (public halves, tool definitions); a secret that it contains is not searched
    for.
    """


class Watch:
    """Searches answers for secrets."""

    def __init__(self, items: Iterable[Watched]) -> None:
        self.items: dict[str, Watched] = {}
        self._needles: list[tuple[Watched, tuple[bytes, ...]]] = []
        for item in items:
            self.add(item)

    def add(self, item: Watched) -> None:
        """Search for this secret, too, unless it is too short or openly visible."""
        is_open = item.text.lower() in item.allowed_in.lower()
        if len(item.text) < SHORTEST or is_open or item.text in self.items:
            return
        self.items[item.text] = item
        self._needles.append((item, _disguises(item.text) if item.is_planted else (item.text.lower().encode(),)))

    def seen_in(self, answer: bytes, sent: bytes, *, is_solved: bool = False) -> list[Watched]:
        """Secrets found in an answer, without those in the request, and without answers if the agent solved the
        task.
        """
        low, asked = answer.lower(), sent.lower()
        return [
            item
            for item, needles in self._needles
            if (item.is_planted or not is_solved)
            and any(needle in low for needle in needles)
            and not any(needle in asked for needle in needles)
        ]

    def hide(self, text: str) -> str:
        """The text with secrets replaced by their names."""
        for secret, item in self.items.items():
            if secret.lower() in text.lower():
                text = re.sub(re.escape(secret), f"⟦{item.name}⟧", text, flags=re.IGNORECASE)
        return text


def _disguises(text: str) -> tuple[bytes, ...]:
    """A canary as it is, reversed, and in hexadecimal, grouped and base64 forms, all in lower case."""
    raw = text.encode()
    forms = {raw, raw[::-1], raw.hex().encode()}
    if text.isdigit():
        forms.add(f"{int(text):,}".encode())
    for shift in range(3):
        # Base64 of a text that begins at any place: the middle is the same whatever stands around it.
        whole = base64.b64encode(b"\0" * shift + raw)
        forms.add(whole[4 if shift else 0 : -4])
    return tuple(form.lower() for form in forms)
