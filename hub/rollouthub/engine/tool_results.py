"""Converts results of tool calls: to message content, and to their recorded form."""

import base64

from mcp_types import AudioContent, CallToolResult, ContentBlock, ImageContent, TextContent

from rollouthub.errors import TaskError
from rollouthub.messages import Media, Part, Text


def recorded_result(
    result: CallToolResult, held: dict[str, bytes]
) -> tuple[str | tuple[Part, ...], int, CallToolResult]:
    """A result as message content, its size in bytes, and its recorded form, in which media are replaced by digests.

    The media's bytes are put into `held`, by digest.

    Raises:
        TaskError: a medium is not valid base64.
    """
    if len(result.content) == 1 and isinstance(result.content[0], TextContent):
        text = result.content[0].text
        if text.isascii():
            return text, len(text), result
    parts: list[Part] = []
    blocks: list[ContentBlock] = []
    size = 0
    for block in result.content:
        if isinstance(block, ImageContent | AudioContent):
            raw = _decoded(block)
            media = Media.named(raw, block.mime_type)
            held[media.digest] = raw
            parts.append(media)
            blocks.append(block.model_copy(update={"data": media.digest}))
            size += len(raw)
            continue
        if isinstance(block, TextContent):
            # Half a surrogate pair is no text: it could be neither stored nor sent.
            block = block.model_copy(update={"text": block.text.encode(errors="replace").decode()})
        text = block.text if isinstance(block, TextContent) else block.model_dump_json(by_alias=True)
        parts.append(Text(text=text))
        blocks.append(block)
        size += len(text.encode())
    content = parts[0].text if len(parts) == 1 and isinstance(parts[0], Text) else tuple(parts)
    return content, size, result.model_copy(update={"content": blocks})


def _decoded(block: ImageContent | AudioContent) -> bytes:
    try:
        return base64.b64decode(block.data)
    except ValueError as error:
        raise TaskError(f"a tool returned {block.mime_type} that is no base64: {error}") from error
