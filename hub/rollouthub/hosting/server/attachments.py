"""A task's pictures, sounds and files as MCP resources of its seat: those of its own messages, and nothing else."""

import base64
from collections.abc import Sequence

from anyio import to_thread
from mcp_types import BlobResourceContents, Resource

from rollouthub.messages import Media, Message, media_of
from rollouthub.tools import media_uri

_SMALL_BYTES = 2**18
"""What is encoded at once; more would hold up the event loop."""


def attachments(messages: Sequence[Message]) -> dict[str, Media]:
    """What messages show, each once, by its URI."""
    return {media_uri(part): part for part in media_of(messages)}


def listed(messages: Sequence[Message]) -> list[Resource]:
    """The attachments of messages, as MCP lists them."""
    found = attachments(messages).items()
    return [
        Resource(
            uri=uri,
            name=f"attachment-{number}",
            description=f"Attachment {number} of the task.",
            mime_type=part.mime_type,
            size=part.held_bytes or None,
        )
        for number, (uri, part) in enumerate(found, 1)
    ]


async def contents_of(messages: Sequence[Message], uri: str) -> BlobResourceContents | None:
    """The bytes of the attachment with this URI; None where the messages show no such thing."""
    part = attachments(messages).get(uri)
    content = None if part is None else part.read()
    if part is None or content is None:
        return None
    if len(content) > _SMALL_BYTES:
        blob = await to_thread.run_sync(base64.b64encode, content)
    else:
        blob = base64.b64encode(content)
    return BlobResourceContents(uri=uri, mime_type=part.mime_type, blob=blob.decode())
