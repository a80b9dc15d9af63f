"""What may leave a machine in a report: plain text, no secrets, and no more of its paths than their last part."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from pydantic import JsonValue

from rollouthub.text import plain

NAME_CHARACTERS = 160
_MASK = "[redacted]"
_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTHORIZATION|COOKIE)$", re.IGNORECASE)
_IN_ADDRESS = re.compile(
    r"(://)[^/@\s]+(?=@)|([?&][^=&\s]*(?:key|token|secret|password)[^=&\s]*=)[^&\s]+", re.IGNORECASE
)
_PATH = re.compile(r"(?<![\w/:.~…])/(?:[^\s/'\":,;<>|()\[\]]+/)+([^\s/'\":,;<>|()\[\]]*)")
_UNSEEN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200c\u200d\u2065\u206a-\u206f\u3164\uffa0\ufff9-\ufffb\ufffe\uffff]"
)
_STACK = re.compile(
    "([\u0300-\u036f\u0483-\u0489\u0610-\u061a\u064b-\u065f\u0e31-\u0e4e\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{3})[\u0300-\u036f\u0483-\u0489\u0610-\u061a\u064b-\u065f\u0e31-\u0e4e\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)


@dataclass(frozen=True)
class Plainness:
    """Makes text fit to be read by anybody; `redact` masks the secrets that the caller knows."""

    redact: Callable[[str], str]

    def said(self, text: str, most: int) -> str:
        """What an agent, model or tool said, cut to a length."""
        # Masked before it is cut, so that no half of a secret is left; only what can be shown is looked at.
        kept = self.redact(text[: 2 * most])
        cleaned = _STACK.sub(r"\1", _seen(_UNSEEN.sub("", plain(kept, most))))
        if len(kept) < len(text) and not cleaned.endswith("in all]"):
            cleaned += f" … [{len(text)} characters in all]"
        return cleaned

    def name(self, text: str) -> str:
        """A name, on one line."""
        return " ".join(self.said(text, NAME_CHARACTERS).split())

    def ours(self, text: str, most: int = 600) -> str:
        """A message of this machine, which may name paths and addresses of it."""
        return shortened(self.said(text, most))

    def settings(self, value: JsonValue, name: str = "") -> JsonValue:
        """Settings without secrets, paths and what is not set."""
        if isinstance(value, dict):
            items = cast(dict[str, Any], value).items()
            kept = {self.name(key): self.settings(item, key) for key, item in items if item is not None}
            return {key: item for key, item in kept.items() if item not in ({}, [])}
        if isinstance(value, list):
            return [self.settings(item, name) for item in value]
        if _SECRET_NAME.search(name) and value is not None:
            return _MASK
        return self.ours(value) if isinstance(value, str) else value


def _seen(text: str) -> str:
    """The text with a mark for every character that nothing draws."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        letter if letter in "\n\t" or letter.isprintable() else " " if letter.isspace() else "\ufffd" for letter in text
    )


def shortened(text: str) -> str:
    """The text with only the last part of every absolute path, and no credentials in addresses."""
    masked = _IN_ADDRESS.sub(lambda found: f"{found[1] or found[2]}{_MASK}", text)
    return _PATH.sub(lambda found: f"…/{found[1]}", masked)
