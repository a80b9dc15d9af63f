"""Messages on their way to and from an engine of token ids: names of calls, ends of words, media in their order."""

from collections.abc import Mapping, Sequence

from rollouthub.errors import ModelError
from rollouthub.messages import Message, Text


def named(message: Message, turn: int) -> Message:
    """The message with an id on each tool request, unique within the conversation."""
    if all(request.id for request in message.tool_requests):
        return message
    requests = tuple(
        request if request.id else request.model_copy(update={"id": f"call-{turn}-{place}"})
        for place, request in enumerate(message.tool_requests)
    )
    return message.model_copy(update={"tool_requests": requests})


def cut(message: Message, stops: Sequence[str]) -> Message:
    """The message up to where a string ended it, which is among its ids and not of its words."""
    text = message.content
    ends = [text.find(stop) for stop in stops if stop and stop in text] if isinstance(text, str) else []
    return message.model_copy(update={"content": text[: min(ends)]}) if ends else message


def shown_media(messages: Sequence[Message], media: Mapping[str, bytes]) -> dict[str, bytes]:
    """The media that messages show, in their order; one shown again has `#2` behind its digest.

    Raises:
        ModelError: bytes are not at hand.
    """
    shown: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    for message in messages:
        for part in () if isinstance(message.content, str) else message.content:
            if isinstance(part, Text):
                continue
            raw = media.get(part.digest)
            if raw is None:
                raise ModelError(
                    f"the conversation names media {part.digest}, whose bytes are not at hand", retryable=False
                )
            count = counts[part.digest] = counts.get(part.digest, 0) + 1
            shown[part.digest if count == 1 else f"{part.digest}#{count}"] = raw
    return shown
