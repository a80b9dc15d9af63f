"""Custom tools: their input is plain text, which a chat model writes as the one field of a JSON object."""

from typing import Any, cast

import msgspec

from rollouthub.gateway.model_api.argument_aliases import Spellings


def custom_input(call_id: str, arguments: str, spellings: Spellings) -> str:
    """The plain input in a call's arguments; how they were written is kept, for when the call comes back."""
    try:
        read: Any = msgspec.json.decode(arguments)
    except (ValueError, RecursionError):
        read = None
    content = cast(dict[str, Any], read).get("content") if isinstance(read, dict) else None
    # A model that leaves out the wrapping means the same.
    plain = content if isinstance(content, str) else arguments
    spellings.keep(call_id, wrapped(plain), arguments)
    return plain


def wrapped(plain: str) -> dict[str, str]:
    """The object that stands for a plain input, in litellm's form of such tools."""
    return {"content": plain}
