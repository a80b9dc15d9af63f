"""Messages are messages already."""

from typing import Any


def maybe_normalize_messages(messages: Any, field_name: str = "") -> Any:
    """The same."""
    return messages
