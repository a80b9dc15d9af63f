"""The OpenAI chat-completions wire: our messages and tools as its JSON, and back.

Structs rather than pydantic models: these are built and parsed on the measured hot path (two calls a rollout).
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence, Set
from typing import Any, cast

import msgspec
from mcp_types import Tool
from msgspec import UNSET, Struct, UnsetType

from rollouthub.errors import ConfigError, ModelError
from rollouthub.messages import Media, Message, Part, Text, ToolRequest
from rollouthub.protocols import Sampling

_IMAGE = re.compile(r"image/[a-z0-9][a-z0-9.+-]*").fullmatch
_SOUNDS = ("wav", "mp3", "mpeg", "flac", "ogg", "opus", "aac", "m4a", "mp4", "webm", "aiff", "pcm16", "pcm")


class WireFunction(Struct, gc=False):
    """What a tool call calls."""

    name: str
    arguments: str = "{}"


class WireToolCall(Struct, gc=False):
    """One tool call of an assistant message."""

    id: str
    function: WireFunction
    type: str = "function"


class WireMessage(Struct, omit_defaults=True):
    """A message as it stands in a request body."""

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
    """A tool as it stands in a request body."""

    function: WireToolFunction
    type: str = "function"


def to_wire(message: Message, media: Mapping[str, bytes], *, with_reasoning: bool) -> WireMessage:
    """One message as the wire has it; media become data URIs.

    `with_reasoning` sends an assistant's thinking back, which chat templates of reasoning models want and strict
    servers refuse.

    Raises:
        ModelError: a message names media whose bytes are not there, or of a kind the wire has no place for.
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
        wire.reasoning = message.reasoning
    return wire


def _part(part: Part, media: Mapping[str, bytes]) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    raw = media.get(part.digest)
    if raw is None:
        raise ModelError(f"the conversation names media {part.digest}, whose bytes are not at hand", retryable=False)
    kind, _, subtype = part.mime_type.partition("/")
    encoded = base64.b64encode(raw).decode()
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": f"data:{part.mime_type};base64,{encoded}"}}
    if kind == "audio":
        return {"type": "input_audio", "input_audio": {"data": encoded, "format": subtype.removeprefix("x-")}}
    raise ModelError(f"the OpenAI wire has no place for media of type {part.mime_type!r}", retryable=False)


def from_wire(wire: WireMessage, media: dict[str, bytes]) -> Message:
    """A message of a request body as ours; bytes of media are added to `media` by digest.

    Raises:
        ValueError: says what is wrong with the message.
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
        head, comma, encoded = str(url).partition(",")
        if not (comma and head.startswith("data:") and head.endswith(";base64")):
            raise ValueError("an image_url is not a base64 data URI")
        mime_type = head.removeprefix("data:").partition(";")[0].lower()
        if _IMAGE(mime_type) is None:
            raise ValueError(f"an image_url holds {mime_type[:80]!r}, which is no image; send image/png or another")
        return _media(encoded, mime_type, media)
    if kind == "input_audio" and isinstance(part.get("input_audio"), dict):
        audio: dict[str, Any] = part["input_audio"]
        sound = audio.get("format")
        if sound not in _SOUNDS:
            raise ValueError(f"sound of format {str(sound)[:80]!r} is not known; send one of {', '.join(_SOUNDS)}")
        return _media(str(audio.get("data")), f"audio/{sound}", media)
    raise ValueError(f"a content part of type {kind!r} is not understood")


def _media(encoded: str, mime_type: str, media: dict[str, bytes]) -> Media:
    try:
        raw = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise ValueError(f"media of type {mime_type!r} is not base64: {error}") from None
    digest = "sha256:" + hashlib.sha256(raw).hexdigest()
    media[digest] = raw
    return Media(digest=digest, mime_type=mime_type)


def encode_tools(tools: Sequence[Tool]) -> msgspec.Raw:
    """Tool definitions as the wire's JSON."""
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
    """Encoded tool definitions, kept by the identity of the tools: every episode of an environment shows the same."""

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        # The tools are held beside their encoding, so that no id is reused while its entry lives.
        self._known: dict[tuple[int, ...], tuple[tuple[Tool, ...], msgspec.Raw]] = {}

    def encoded(self, tools: Sequence[Tool]) -> msgspec.Raw:
        """The tools as the wire's JSON."""
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
    """Put the parameters of a request into its body; `reserved` are the fields that are not the caller's.

    Raises:
        ModelError: the caller sets one of those.
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
    """Refuse, before any request is made, what `write_sampling` would.

    Raises:
        ConfigError: a field that is not the caller's is set.
    """
    if taken := reserved & sampling.extra.keys():
        raise ConfigError(_reserved(taken))


def _reserved(taken: Set[str]) -> str:
    return f"sampling.extra sets {', '.join(map(repr, sorted(taken)))}, which the hub sets itself; leave it out"
