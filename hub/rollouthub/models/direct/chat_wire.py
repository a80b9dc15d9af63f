"""The OpenAI chat-completions format: converts the hub's messages and tools to its JSON, and back.

Structs rather than pydantic models: these are built and parsed on the measured hot path (two calls a rollout).
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence, Set
from typing import Any, Literal, cast

import msgspec
from mcp_types import Tool
from msgspec import UNSET, Struct, UnsetType

from rollouthub.errors import ConfigError, ModelError
from rollouthub.generation import Sampling
from rollouthub.messages import Media, Message, Part, Text, ToolRequest, data_url, digest_of, media_bytes, media_type

_IMAGE = re.compile(r"image/[a-z0-9][a-z0-9.+-]*").fullmatch
_FILE = re.compile(r"(?:application|text)/[a-z0-9][a-z0-9.+-]*").fullmatch
_SPELT = {"mpeg": "mp3", "wave": "wav", "vnd.wave": "wav"}
"""Audio MIME subtypes for which the API uses another name."""
_SOUNDS = ("wav", "mp3", "mpeg", "flac", "ogg", "opus", "aac", "m4a", "mp4", "webm", "aiff", "pcm16", "pcm")


class WireFunction(Struct, gc=False):
    """The function name and arguments of a tool call."""

    name: str
    arguments: str = "{}"


class WireToolCall(Struct, gc=False):
    """One tool call of an assistant message."""

    id: str
    function: WireFunction
    type: str = "function"


class WireMessage(Struct, omit_defaults=True):
    """A message in a request body."""

    role: str
    content: str | list[dict[str, Any]] | UnsetType | None = UNSET
    tool_calls: list[WireToolCall] | None = None
    tool_call_id: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class WireToolFunction(Struct, omit_defaults=True):
    """A tool's definition."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class WireTool(Struct):
    """A tool in a request body."""

    function: WireToolFunction
    type: str = "function"


ReasoningField = Literal["reasoning", "reasoning_content"]
"""The field of an assistant's reasoning: vLLM reads the first, SGLang 0.5.23 the second."""


def to_wire(
    message: Message,
    media: Mapping[str, bytes],
    *,
    with_reasoning: bool,
    reasoning_field: ReasoningField = "reasoning",
) -> WireMessage:
    """A message in the API's format; media become data URIs.

    `with_reasoning` includes the assistant's reasoning, which chat templates of reasoning models need and strict
    servers reject.

    Raises:
        ModelError: the bytes of a medium are missing, or the API cannot carry media of its type.
    """
    content = message.content
    wire = WireMessage(message.role, content if isinstance(content, str) else [_part(part, media) for part in content])
    if message.tool_requests:
        wire.tool_calls = [
            WireToolCall(request.id, WireFunction(request.name, request.arguments)) for request in message.tool_requests
        ]
        if not content:
            # What servers themselves say beside tool calls; some chat templates treat "" differently.
            wire.content = None
    if message.tool_call_id is not None:
        wire.tool_call_id = message.tool_call_id
    if with_reasoning and message.reasoning is not None:
        setattr(wire, reasoning_field, message.reasoning)
    return wire


def _part(part: Part, media: Mapping[str, bytes]) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    raw = media_bytes(part, media)
    kind, _, subtype = part.mime_type.partition("/")
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": data_url(raw, part.mime_type)}}
    if kind == "audio":
        encoded = base64.b64encode(raw).decode()
        sound = subtype.removeprefix("x-")
        return {"type": "input_audio", "input_audio": {"data": encoded, "format": _SPELT.get(sound, sound)}}
    if _FILE(part.mime_type):
        return {"type": "file", "file": {"filename": f"file.{subtype}", "file_data": data_url(raw, part.mime_type)}}
    raise ModelError(
        f"the OpenAI wire has no place for media of type {part.mime_type!r}; it takes pictures, sounds and documents",
        retryable=False,
    )


def from_wire(wire: WireMessage, media: dict[str, bytes]) -> Message:
    """A message of a request body as the hub's; the bytes of its media are added to `media` by digest.

    Raises:
        ValueError: the message is invalid; says what is wrong.
    """
    role = wire.role
    if role == "developer":
        role = "system"
    if role not in ("system", "user", "assistant", "tool"):
        raise ValueError(f"unknown role {wire.role!r}")
    if role == "tool" and wire.tool_call_id is None:
        raise ValueError("a tool message lacks tool_call_id")
    content = wire.content
    if isinstance(content, list):
        parts = tuple(_from_part(part, media) for part in content)
        # Parts of words alone are the same message as their text; one form keeps histories comparable.
        ours = parts[0].text if len(parts) == 1 and isinstance(parts[0], Text) else parts
    else:
        if role != "assistant" and not isinstance(content, str):
            raise ValueError(f"a {role} message lacks content")
        ours = content if isinstance(content, str) else ""
    return Message(
        role=role,
        content=ours,
        reasoning=wire.reasoning if wire.reasoning is not None else wire.reasoning_content,
        tool_requests=tuple(
            ToolRequest(id=call.id, name=call.function.name, arguments=call.function.arguments)
            for call in wire.tool_calls or ()
        ),
        tool_call_id=wire.tool_call_id if role == "tool" else None,
    )


def _from_part(part: dict[str, Any], media: dict[str, bytes]) -> Part:
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return Text(text=part["text"])
    if kind == "image_url":
        image: Any = part.get("image_url")
        url = cast(dict[str, Any], image).get("url") if isinstance(image, dict) else image
        mime_type, encoded = _data_uri(url, "an image_url")
        if _IMAGE(mime_type) is None:
            raise ValueError(f"an image_url holds {mime_type[:80]!r}, which is no image; send image/png or another")
        if mime_type.startswith("image/svg"):
            raise ValueError(
                "an SVG is a program of shapes, which no model is shown as a picture; send it as image/png"
            )
        image_part = _media(encoded, mime_type, media)
        found = media_type(media[image_part.digest])
        if found is not None and not found.startswith("image/"):
            del media[image_part.digest]
            raise ValueError(f"an image_url of {mime_type} holds {found}; send it as what it is")
        return image_part
    if kind == "input_audio" and isinstance(part.get("input_audio"), dict):
        audio: dict[str, Any] = part["input_audio"]
        sound = audio.get("format")
        if sound not in _SOUNDS:
            raise ValueError(f"sound of format {str(sound)[:80]!r} is not known; send one of {', '.join(_SOUNDS)}")
        return _media(str(audio.get("data")), "audio/mpeg" if sound == "mp3" else f"audio/{sound}", media)
    if kind == "file" and isinstance(part.get("file"), dict):
        mime_type, encoded = _data_uri(part["file"].get("file_data"), "the file_data of a part 'file'")
        if _FILE(mime_type) is None:
            raise ValueError(f"a file holds {mime_type[:80]!r}, which is no document; send application/pdf or another")
        return _media(encoded, mime_type, media)
    raise ValueError(f"a content part of type {kind!r} is not understood")


def _data_uri(uri: object, what: str) -> tuple[str, str]:
    """The MIME type and the base64 text of a data URI."""
    head, comma, encoded = str(uri).partition(",")
    if not (comma and head.startswith("data:") and head.endswith(";base64")):
        raise ValueError(f"{what} is not a base64 data URI")
    return head.removeprefix("data:").partition(";")[0].lower(), encoded


def _media(encoded: str, mime_type: str, media: dict[str, bytes]) -> Media:
    try:
        raw = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError(f"media of type {mime_type!r} is not base64: {error}") from None
    digest = digest_of(raw)
    media[digest] = raw
    return Media(digest=digest, mime_type=mime_type)


def encode_tools(tools: Sequence[Tool]) -> msgspec.Raw:
    """Tool definitions as the API's JSON."""
    return msgspec.Raw(
        msgspec.json.encode(
            [WireTool(WireToolFunction(tool.name, tool.description, tool.input_schema)) for tool in tools]
        )
    )


def decode_tools(tools: Sequence[WireTool]) -> tuple[Tool, ...]:
    """Tool definitions of a request body as MCP's."""
    return tuple(
        Tool(
            name=tool.function.name,
            description=tool.function.description,
            input_schema=tool.function.parameters or {"type": "object", "properties": {}},
        )
        for tool in tools
    )


class ToolSchemas:
    """A cache of encoded tool definitions by the identity of the tools, which all episodes of an environment share."""

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        # The tools are held beside their encoding, so that no id is reused while its entry lives.
        self._known: dict[tuple[int, ...], tuple[tuple[Tool, ...], msgspec.Raw]] = {}

    def encoded(self, tools: Sequence[Tool]) -> msgspec.Raw:
        """The tools as the API's JSON."""
        key = tuple(map(id, tools))
        entry = self._known.get(key)
        if entry is None:
            if len(self._known) >= self._capacity:
                self._known.clear()
            entry = self._known[key] = (tuple(tools), encode_tools(tools))
        return entry[1]


def write_sampling(
    body: dict[str, Any], sampling: Sampling, reserved: Set[str], max_tokens_field: str = "max_tokens"
) -> None:
    """Write sampling settings into a request body; `reserved` are fields that `extra` must not set.

    Raises:
        ModelError: `extra` sets a reserved field.
    """
    if sampling.temperature is not None:
        body["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        body["top_p"] = sampling.top_p
    if sampling.max_tokens is not None:
        body[max_tokens_field] = sampling.max_tokens
    if sampling.stop is not None:
        body["stop"] = list(sampling.stop)
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if sampling.extra:
        if taken := reserved & sampling.extra.keys():
            raise ModelError(_reserved(taken), retryable=False)
        body.update(sampling.extra)


def check_extra(sampling: Sampling, reserved: Set[str]) -> None:
    """Before any request, refuse sampling settings that `write_sampling` would refuse.

    Raises:
        ConfigError: `extra` sets a reserved field.
    """
    if taken := reserved & sampling.extra.keys():
        raise ConfigError(_reserved(taken))


def _reserved(taken: Set[str]) -> str:
    return f"sampling.extra sets {', '.join(map(repr, sorted(taken)))}, which the hub sets itself; leave it out"
