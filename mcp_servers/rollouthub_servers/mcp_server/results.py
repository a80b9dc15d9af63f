"""Limits the size of a tool's result before a model reads it."""

from mcp_types import CallToolResult, ContentBlock, TextContent
from pydantic_core import to_json

_NOTE = "[cut: the result has {size:,} bytes, {limit:,} is the most]"


def bounded(result: CallToolResult, limit: int) -> CallToolResult:
    """The result without `_meta`, cut to `limit` bytes; a result that was cut says so."""
    size = len(to_json(result.content)) + len(to_json(result.structured_content))
    if size <= limit:
        return CallToolResult(
            content=result.content, structured_content=result.structured_content, is_error=result.is_error
        )
    room, kept = limit, list[ContentBlock]()
    for block in result.content:
        if isinstance(block, TextContent):
            text = block.text.encode()[:room].decode(errors="ignore")
            room -= len(text.encode())
            if text:
                kept.append(TextContent(text=text))
        elif (cost := len(to_json(block))) <= room:
            room -= cost
            kept.append(block)
    return CallToolResult(
        content=[*kept, TextContent(text=_NOTE.format(size=size, limit=limit))], is_error=result.is_error
    )
