"""Conversations as input of the Responses API, and its output items as parts of an answer."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from rollouthub.errors import ModelError
from rollouthub.event_loop import is_crowded
from rollouthub.messages import Message, ToolRequest, media_bytes, media_of
from rollouthub.models.direct.answer_bounds import check_calls
from rollouthub.models.direct.completion import CalledTool, Function, Said
from rollouthub.models.response_items import Item, message_items

_MOST_KEPT_BYTES = 4 * 2**20
"""Most bytes of an answer's items that are kept."""
_TAKEN = ("image", "application", "text")
"""Kinds of media that the API takes."""


class _Kind(Struct, gc=False):
    type: str = "message"
    encrypted_content: Any = None
    content: Any = None
    phase: Any = None


class _TextPart(Struct, gc=False):
    text: str | None = None
    refusal: str | None = None


class _Words(Struct, gc=False):
    content: list[_TextPart] = []


class _Thought(Struct, gc=False):
    summary: list[_TextPart] | None = None
    content: list[_TextPart] | None = None


class _FunctionCall(Struct, gc=False):
    name: str = ""
    arguments: str = ""
    call_id: str | None = None


_raws = msgspec.json.Decoder(list[Raw]).decode
_kind = msgspec.json.Decoder(_Kind).decode
_words = msgspec.json.Decoder(_Words).decode
_thought = msgspec.json.Decoder(_Thought).decode
_call = msgspec.json.Decoder(_FunctionCall).decode


def input_of(messages: Sequence[Message], media: Mapping[str, bytes], asked: str) -> list[Item]:
    """A conversation as a request's `input`. An answer that came as items goes back as those to the model that wrote
    them; `asked` is the mark of the model that is asked.

    Raises:
        ModelError: the bytes of a medium are missing, or the API cannot carry media of its type.
    """
    items: list[Item] = []
    for place, message in enumerate(messages):
        if message.role == "assistant":
            items += _sent_back(message, asked)
            continue
        shown = {part.digest: media_bytes(part, media) for part in media_of([message])}
        for part in media_of([message]):
            if part.mime_type.partition("/")[0] not in _TAKEN:
                raise ModelError(
                    f"the Responses API has no place for media of type {part.mime_type!r}; it takes pictures and "
                    "documents",
                    retryable=False,
                )
        items += message_items(message, f"input-{place}", shown.__getitem__)
    return items


def _sent_back(message: Message, asked: str) -> list[Item]:
    """An answer as input: its own items, unless another model wrote them, or its words or calls were changed since."""
    if message.items is not None and message.items_from == asked and not is_crowded(message.items):
        try:
            said, _ = read_output(message.items.encode())
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            said = None
        if said is not None and _is_same(said, message):
            return msgspec.json.decode(message.items.encode(), type=list[Item])
    items: list[Item] = []
    if message.text or not message.tool_requests:
        items.append({"type": "message", "role": "assistant", "content": message.text})
    items += (
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_requests
    )
    return items


def _is_same(said: Said, message: Message) -> bool:
    calls = tuple(
        ToolRequest(id=call.id or "", name=call.function.name or "", arguments=str(call.function.arguments))
        for call in said.tool_calls or ()
    )
    return (said.content or said.refusal or "") == message.text and calls == message.tool_requests


def read_output(output: bytes) -> tuple[Said, str | None]:
    """The message in an answer's output items, and the items as they are sent back; None where the message says all
    of them, or they are longer than any thought: they are kept in the record, and read again in every later turn.

    Reasoning goes back if it is encrypted or whole: a summary alone is known to no server that stores nothing.

    Raises:
        msgspec.DecodeError: it is no list of items.
        TooLong: there are too many tool calls.
    """
    texts: list[str] = []
    refusals: list[str] = []
    thoughts: list[str] = []
    calls: list[CalledTool] = []
    kept: list[bytes] = []
    says_more = False
    for raw in _raws(output):
        item = _kind(raw)
        if item.type == "message":
            parts = _words(raw).content
            texts += [part.text for part in parts if part.text]
            refusals += [part.refusal for part in parts if part.refusal]
            says_more |= item.phase is not None
        elif item.type == "function_call":
            call = _call(raw)
            calls.append(CalledTool(Function(call.name, call.arguments), call.call_id))
            check_calls(len(calls))
        elif item.type == "reasoning":
            thought = _thought(raw)
            thoughts += [part.text for part in (thought.summary or thought.content or ()) if part.text]
            if not item.encrypted_content and not item.content:
                continue
            says_more = True
        else:
            says_more = True
        kept.append(bytes(raw))
    said = Said(
        content="".join(texts) or None,
        tool_calls=calls or None,
        reasoning="\n\n".join(thoughts) or None,
        refusal="".join(refusals) or None,
    )
    if not says_more or sum(map(len, kept)) > _MOST_KEPT_BYTES:
        return said, None
    return said, f"[{b','.join(kept).decode()}]"
