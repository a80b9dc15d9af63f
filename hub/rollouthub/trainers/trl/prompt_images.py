"""Pictures of tasks in TRL's data sets: placeholders in the prompt, and the bytes in a column `images`."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from rollouthub.errors import ConfigError
from rollouthub.messages import Media, Message, media_bytes, media_of

IMAGES = "images"


def begun(messages: Sequence[Message]) -> dict[str, Any]:
    """The columns of a task's first messages: `prompt`, and `images` if they show pictures.

    Raises:
        ConfigError: the task shows sounds or other media.
        ModelError: the bytes of a picture are not available.
    """
    shown = media_of(messages)
    if other := next((each for each in shown if not each.mime_type.startswith("image/")), None):
        raise ConfigError(f"a task shows {other.mime_type}, and TRL takes pictures alone")
    prompt = [{"role": message.role, "content": _content(message)} for message in messages]
    return {"prompt": prompt, **({IMAGES: [media_bytes(part, {}) for part in shown]} if shown else {})}


def alike(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in one common form: if any row shows a picture, every content is a list of blocks and every row has the
    column `images`.
    """
    if not any(IMAGES in row for row in rows):
        return rows
    return [
        {
            **row,
            "prompt": [{**message, "content": _blocks(message["content"])} for message in row["prompt"]],
            IMAGES: row.get(IMAGES, []),
        }
        for row in rows
    ]


def words_of(content: object) -> str:
    """The text of a message content, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = cast(Sequence[Mapping[str, Any]], content or ())
    return "\n".join(str(block["text"]) for block in blocks if block.get("type") == "text")


def _content(message: Message) -> Any:
    if isinstance(message.content, str) or not media_of([message]):
        return message.text
    # A key for each, or Arrow would write a text of None beside a mark.
    return [
        {"type": "image", "text": ""} if isinstance(part, Media) else {"type": "text", "text": part.text}
        for part in message.content
    ]


def _blocks(content: Any) -> Any:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
