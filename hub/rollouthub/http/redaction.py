"""Keeping tokens out of logs: whatever opens an episode is masked, wherever a library puts it into a line."""

import logging
import re

MASK = "[token]"
_TOKEN = r"[^\s/\"'?#<>\\]"
_PLACES = re.compile(
    rf"(?P<seat>/(?:e|llm)/)(?!v1(?:/|$)){_TOKEN}+"
    rf"|(?P<practice>/practice/{_TOKEN}+/){_TOKEN}+(?=/mcp)"
    rf"|(?P<bearer>\bbearer\s+){_TOKEN}[^\s\"'\\]*"
    r"|(?P<key>\b(?:x-api-key|api[_-]?key)[\"']?\s*[:=]\s*b?[\"']?)[^\s\"',\\]+",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """The text with every token masked that a URL, a header or a setting in it holds."""
    return _PLACES.sub(_masked, text)


def _masked(found: "re.Match[str]") -> str:
    return f"{next(group for group in found.groups() if group is not None)}{MASK}"


class RedactingFormatter(logging.Formatter):
    """Formats records without their tokens, tracebacks included. A filter would see neither those nor arguments."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        return redact(super().format(record))
