"""Redaction of text for reports: no control characters, no secrets, and only the last part of paths."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from pydantic import JsonValue

from rollouthub.models.credentials import is_secret_name
from rollouthub.text import one_line, printable

NAME_CHARACTERS = 160
_MASK = "[redacted]"
_IN_ADDRESS = re.compile(
    r"(://)[^/@\s]+(?=@)|([?&][^=&\s]*(?:key|token|secret|password)[^=&\s]*=)[^&\s]+", re.IGNORECASE
)
_PATH = re.compile(r"(?<![\w/:.~…])/(?:[^\s/'\":,;<>|()\[\]]+/)+([^\s/'\":,;<>|()\[\]]*)")


@dataclass(frozen=True)
class Plainness:
    """Makes text fit for publication; `redact` masks the secrets that the caller knows."""

    redact: Callable[[str], str]

    def said(self, text: str, most: int) -> str:
        """Redact text of an agent, model or tool, and cut it to `most` characters."""
        # Masked before it is cut, so that no half of a secret is left; only what can be shown is looked at.
        kept = self.redact(text[: 2 * most])
        cleaned = printable(kept, most)
        if len(kept) < len(text) and not cleaned.endswith("in all]"):
            cleaned += f" … [{len(text)} characters in all]"
        return cleaned

    def cut(self, text: str, most: int) -> tuple[str, int]:
        """Redact text of an agent, model or tool, and cut it; the number of characters that are left out."""
        return printable(self.redact(text[: 2 * most]))[:most], max(0, len(text) - most)

    def cut_ours(self, text: str, most: int) -> tuple[str, int]:
        """The same for a message of this machine, in which paths and credentials in addresses are shortened, too."""
        cut, left = self.cut(text, most)
        return shortened(cut), left

    def name(self, text: str) -> str:
        """Redact a name, and put it on one line."""
        return one_line(self.redact(text[: 4 * NAME_CHARACTERS]), NAME_CHARACTERS)

    def ours(self, text: str, most: int = 600) -> str:
        """Redact a message of this machine, including its paths and credentials in addresses."""
        return shortened(self.said(text, most))

    def settings(self, value: JsonValue, name: str = "") -> JsonValue:
        """Settings with secrets masked and paths shortened, without unset and empty ones."""
        if isinstance(value, dict):
            items = cast(dict[str, Any], value).items()
            kept = {self.name(key): self.settings(item, key) for key, item in items if item is not None}
            return {key: item for key, item in kept.items() if item not in ({}, [])}
        if isinstance(value, list):
            return [self.settings(item, name) for item in value]
        if is_secret_name(name) and value is not None:
            return _MASK
        return self.ours(value) if isinstance(value, str) else value


def shortened(text: str) -> str:
    """Shorten every absolute path to its last part, and mask credentials in addresses."""
    masked = _IN_ADDRESS.sub(lambda found: f"{found[1] or found[2]}{_MASK}", text)
    return _PATH.sub(lambda found: f"…/{found[1]}", masked)
