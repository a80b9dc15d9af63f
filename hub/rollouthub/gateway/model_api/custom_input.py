"""Custom tools, whose input is plain text: a chat model writes it as the single field of a JSON object."""

from typing import Any, cast

import msgspec

from rollouthub.gateway.model_api.argument_aliases import ArgumentAliases


def custom_input(call_id: str, arguments: str, aliases: ArgumentAliases) -> str:
    """The plain text in a call's arguments. The original arguments are remembered for when the agent sends the call
    back.
    """
    try:
        read: Any = msgspec.json.decode(arguments)
    except (ValueError, RecursionError):
        read = None
    content = cast(dict[str, Any], read).get("content") if isinstance(read, dict) else None
    # A model that leaves out the wrapping means the same.
    plain = content if isinstance(content, str) else arguments
    aliases.keep(call_id, wrapped(plain), arguments)
    return plain


def wrapped(plain: str) -> dict[str, str]:
    """The object that holds a plain text, in litellm's form of custom tools."""
    return {"content": plain}
