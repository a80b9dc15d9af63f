"""Messages to and from a token engine: ids of tool calls, stop strings, and the order of media."""

from collections.abc import Mapping, Sequence

from rollouthub.messages import Message, media_bytes, media_of


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
    """The message's text up to the first stop string; the token ids keep it."""
    text = message.content
    ends = [text.find(stop) for stop in stops if stop and stop in text] if isinstance(text, str) else []
    return message.model_copy(update={"content": text[: min(ends)]}) if ends else message


def shown_media(messages: Sequence[Message], media: Mapping[str, bytes]) -> dict[str, bytes]:
    """The media that messages show, in their order; a repeated one has `#2` after its digest.

    Raises:
        ModelError: the bytes of a medium are not available.
    """
    shown: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    for part in media_of(messages):
        count = counts[part.digest] = counts.get(part.digest, 0) + 1
        shown[part.digest if count == 1 else f"{part.digest}#{count}"] = media_bytes(part, media)
    return shown
