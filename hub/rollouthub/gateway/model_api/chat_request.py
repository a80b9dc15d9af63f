"""Parses chat-completions requests of agents, into the request that the hub's own loop would make for the same
conversation.

Structs rather than pydantic models: the chat dialect is on the measured hot path.
"""

from collections.abc import Sized
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct
from pydantic import JsonValue

from rollouthub.gateway.model_api.decode_cache import DecodeCache
from rollouthub.gateway.model_api.dialect import AnswerRequest
from rollouthub.gateway.model_api.json_body import decoded
from rollouthub.gateway.model_api.known_tools import KnownTools
from rollouthub.gateway.model_api.request_bounds import Parts, check_max_tokens, check_messages
from rollouthub.messages import Media, Message
from rollouthub.models.direct.chat_wire import WireMessage, from_wire


class AgentMessage(WireMessage):
    """A message as agents send it back: with fields that providers add, and obsolete fields that are refused."""

    refusal: str | None = None
    function_call: Any = None
    audio: Any = None


class StreamOptions(Struct):
    """The options of a streamed answer."""

    include_usage: bool | None = False


class ChatRequest(Struct):
    """The fields of a request body that shape the answer. Sampling parameters are not read, because the run
    determines them.
    """

    messages: list[Raw]
    model: str = ""
    tools: Raw = Raw(b"null")
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    stop: str | list[str] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: int | None = None
    modalities: list[str] | None = None
    functions: Any = None
    function_call: Any = None


_decode = msgspec.json.Decoder(ChatRequest).decode
_decode_message = msgspec.json.Decoder(AgentMessage).decode


class ChatReader:
    """Parses chat-completions requests. Agents send the whole conversation with each call, so parsed messages are
    cached.
    """

    def __init__(self, most_bytes: int = 64 * 2**20) -> None:
        self._tools = KnownTools(most_bytes // 4)
        self._messages: DecodeCache[Message] = DecodeCache(most_bytes, 128 * 2**10)

    def read(self, body: bytes, own: Any = None, scope: bytes = b"") -> AnswerRequest:
        """Parse a request's body; `own` and `scope` are stored in the result, for writing the answer.

        Raises:
            ValueError: the body is invalid; says what is wrong.
        """
        request = decoded(_decode, body)
        _check(request)
        media: dict[str, bytes] = {}
        parts = Parts()
        tools = self._tools.decoded(bytes(request.tools))
        limit = request.max_completion_tokens if request.max_completion_tokens is not None else request.max_tokens
        if limit is not None and limit < 1:
            raise ValueError(f"max_tokens={limit}: at least 1")
        check_max_tokens(limit)
        return AnswerRequest(
            messages=[self._message(bytes(raw), place, media, parts) for place, raw in enumerate(request.messages)],
            tools=tools,
            model=request.model,
            is_stream=bool(request.stream),
            max_tokens=limit,
            constraints=_constraints(request, has_tools=bool(tools)),
            media=media,
            own=own if own is not None else _is_usage_wanted(request),
            scope=scope,
        )

    def _message(self, raw: bytes, place: int, media: dict[str, bytes], parts: Parts) -> Message:
        message = self._messages.get(raw)
        if message is not None:
            parts.add(_size(message.content) + len(message.tool_requests))
            return message
        try:
            wire = decoded(_decode_message, raw)
            parts.add(_size(wire.content) + len(wire.tool_calls or ()))
            _check_message(wire)
            message = from_wire(wire, media)
            # What names media is read again, for their bytes.
            if isinstance(message.content, str) or not any(isinstance(part, Media) for part in message.content):
                self._messages.keep(raw, message, len(raw))
            return message
        except ValueError as error:
            raise ValueError(f"messages[{place}]: {error}") from None


def _size(content: object) -> int:
    """How many parts a content has; plain text counts as none."""
    return len(cast(Sized, content)) if isinstance(content, list | tuple) else 0


def _is_usage_wanted(request: ChatRequest) -> bool:
    return request.stream_options is not None and bool(request.stream_options.include_usage)


def _check(request: ChatRequest) -> None:
    if request.n is not None and request.n != 1:
        raise ValueError(f"n={request.n}: an episode's call has one answer; ask again for another")
    if request.functions or request.function_call:
        raise ValueError("`functions` and `function_call` are not served; use `tools` and `tool_choice`")
    if request.modalities and request.modalities != ["text"]:
        raise ValueError(f"modalities={request.modalities}: answers are text")
    if not request.messages:
        raise ValueError("messages is empty; there is nothing to answer")
    check_messages(request.messages)


def _check_message(message: AgentMessage) -> None:
    """Refuse unsupported fields, and turn a refusal into the message's text."""
    if message.function_call:
        raise ValueError("`function_call` is not served; use `tool_calls`")
    if message.audio:
        raise ValueError("an answer in sound is not served")
    if isinstance(message.content, list):
        message.content = [_part(part) for part in message.content]
    elif message.refusal is not None and not isinstance(message.content, str):
        message.content = message.refusal


def _part(part: dict[str, Any]) -> dict[str, Any]:
    kind = part.get("type")
    if kind == "refusal":
        return {"type": "text", "text": part.get("refusal")}
    if kind == "image_url":
        image = part.get("image_url")
        url: Any = cast(dict[str, Any], image).get("url") if isinstance(image, dict) else image
        if isinstance(url, str) and not url.startswith("data:"):
            raise ValueError(f"the image {url[:80]!r} is not fetched; send it as a base64 data URI")
    return part


def _constraints(request: ChatRequest, *, has_tools: bool) -> dict[str, JsonValue]:
    """Fields that constrain the answer; those that equal the default are left out."""
    constraints: dict[str, JsonValue] = {}
    if request.stop:
        constraints["stop"] = cast(JsonValue, request.stop)
    if request.response_format is not None and request.response_format.get("type") != "text":
        constraints["response_format"] = request.response_format
    if has_tools:
        if request.tool_choice not in (None, "auto"):
            constraints["tool_choice"] = _tool_choice(request.tool_choice)
        if request.parallel_tool_calls is False:
            constraints["parallel_tool_calls"] = False
    return constraints


def _tool_choice(choice: Any) -> JsonValue:
    if choice in ("none", "required"):
        return choice
    if isinstance(choice, dict):
        chosen = cast(dict[str, Any], choice)
        function = chosen.get("function")
        if chosen.get("type") == "function" and isinstance(function, dict):
            name = cast(dict[str, Any], function).get("name")
            if isinstance(name, str):
                return {"type": "function", "function": {"name": name}}
    raise ValueError(f"tool_choice={choice!r}: 'auto', 'none', 'required', or a function by its name")
