"""The arguments of a tool call, as a model wrote them."""

from typing import Any, cast

import anyio.lowlevel
import msgspec
from mcp_types import CallToolResult

from rollouthub.event_loop import MOST_VALUES, is_crowded
from rollouthub.messages import ToolRequest
from rollouthub.tools import text_result

DEEPEST = 64
"""Most levels of nesting in a call's arguments; deeper ones could not be read back from a record."""
TOO_MANY = f"the arguments hold more than {MOST_VALUES:,} values; give fewer at a time, or as text"
TOO_DEEP = f"the arguments nest deeper than {DEEPEST} levels"


def arguments_of(request: ToolRequest) -> tuple[Any, CallToolResult | None]:
    """The request's parsed arguments and None; or, if they are no JSON object, what was read and the error for the
    model.
    """
    if is_crowded(request.arguments):
        return request.arguments, text_result(TOO_MANY, is_error=True)
    return _read(request)


async def long_arguments_of(request: ToolRequest) -> tuple[Any, CallToolResult | None]:
    """As `arguments_of`, for long arguments: lets other tasks run before and after the text is parsed."""
    if is_crowded(request.arguments):
        return request.arguments, text_result(TOO_MANY, is_error=True)
    await anyio.lowlevel.checkpoint()
    read = _read(request)
    await anyio.lowlevel.checkpoint()
    return read


def _read(request: ToolRequest) -> tuple[Any, CallToolResult | None]:
    text = request.arguments.strip() or "{}"
    try:
        arguments = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        return request.arguments, text_result(f"the arguments are not JSON: {error}", is_error=True)
    if text.count("{") + text.count("[") > DEEPEST and not is_shallow(arguments, DEEPEST):
        return request.arguments, text_result(TOO_DEEP, is_error=True)
    if isinstance(arguments, dict):
        return cast(dict[str, Any], arguments), None
    return arguments, text_result("the arguments must be a JSON object", is_error=True)


def is_shallow(value: Any, levels: int) -> bool:
    """Whether a JSON value nests no deeper than the given number of levels."""
    inner: Any = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if not inner:
        return True
    nested: list[Any] = [item for item in inner if isinstance(item, dict | list)]
    return levels > 0 and (not nested or all(is_shallow(item, levels - 1) for item in nested))
