"""Size limits of one request to the model API: agents choose what they send, and reading it costs CPU and memory."""

from collections.abc import Sequence
from typing import Any, cast

from rollouthub.event_loop import is_crowded

MOST_MESSAGES = 10_000
MOST_TOOLS = 1_000
MOST_PARTS = 10_000
"""Most content parts and tool calls of all messages together."""
MOST_VALUES = 200_000
"""Most values in a whole body, counted before decoding."""
MOST_TOKENS = 2**31 - 1
"""Most tokens that a request may ask for in one answer: servers use 32-bit integers."""


class Parts:
    """Counts the content parts of a request."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, count: int) -> None:
        """Add to the count.

        Raises:
            ValueError: there are too many parts.
        """
        self._count += count
        if self._count > MOST_PARTS:
            raise ValueError(f"the request has more than {MOST_PARTS} content parts; send fewer")

    def add_content(self, content: object) -> None:
        """Count the parts of a message's content, including the parts of tool results in it."""
        if not isinstance(content, list):
            return
        parts = cast(list[Any], content)
        self.add(len(parts))
        for part in parts:
            if isinstance(part, dict):
                self.add_content(cast(dict[str, Any], part).get("content"))


def check_body(body: bytes) -> None:
    """Before decoding, refuse a body with more than `MOST_VALUES` values.

    Raises:
        ValueError: the body has too many values.
    """
    if is_crowded(body, MOST_VALUES):
        raise ValueError(f"the request holds more than {MOST_VALUES:,} values, which is more than a model can read")


def check_messages(messages: Sequence[object], name: str = "messages") -> None:
    """Refuse more than `MOST_MESSAGES` messages.

    Raises:
        ValueError: there are more.
    """
    if len(messages) > MOST_MESSAGES:
        raise ValueError(f"{name} has {len(messages)} entries; at most {MOST_MESSAGES}")


def check_tools(tools: Sequence[object] | None) -> None:
    """Refuse more than `MOST_TOOLS` tools, including those within a namespace.

    Raises:
        ValueError: there are more.
    """
    count = 0
    for tool in tools or ():
        inner: Any = cast(dict[str, Any], tool).get("tools") if isinstance(tool, dict) else None
        count += 1 + (len(cast(list[Any], inner)) if isinstance(inner, list) else 0)
    if count > MOST_TOOLS:
        raise ValueError(f"tools has {count} entries; at most {MOST_TOOLS}")


def check_max_tokens(limit: int | None, name: str = "max_tokens") -> None:
    """Refuse a `max_tokens` above `MOST_TOKENS`.

    Raises:
        ValueError: it is higher.
    """
    if limit is not None and limit > MOST_TOKENS:
        raise ValueError(f"{name} is at most {MOST_TOKENS}")
