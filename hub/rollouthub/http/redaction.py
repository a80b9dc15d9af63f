"""Masks tokens in log lines, wherever a library writes them."""

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
    """Return the text with every token in a URL, a header or a setting masked."""
    return _PLACES.sub(_masked, text)


def _masked(found: "re.Match[str]") -> str:
    return f"{next(group for group in found.groups() if group is not None)}{MASK}"


class RedactingFormatter(logging.Formatter):
    """Formats log records with tokens masked, tracebacks included. A logging filter would see neither tracebacks nor
    formatted arguments.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a log line, with secrets masked."""
        return redact(super().format(record))
