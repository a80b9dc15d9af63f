"""Parses requests of the Anthropic Messages API, by translating them to chat completions."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import Struct

from rollouthub.gateway.model_api.argument_aliases import ArgumentAliases
from rollouthub.gateway.model_api.chat_request import ChatReader
from rollouthub.gateway.model_api.dialect import AnswerRequest
from rollouthub.gateway.model_api.json_body import decoded
from rollouthub.gateway.model_api.litellm_translation import chat_of_messages
from rollouthub.gateway.model_api.request_bounds import Parts, check_max_tokens, check_messages, check_tools

_ROLES = ("user", "assistant", "system")
_BILLING = "x-anthropic-billing-header:"
_PICTURE_TOKENS = 1600
_BYTES_A_TOKEN = 4


class MessagesRequest(Struct):
    """The fields of a request body that shape the answer."""

    messages: list[dict[str, Any]]
    model: str = ""
    max_tokens: int | None = None
    system: str | list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = False
    output_format: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    mcp_servers: Any = None


_decode = msgspec.json.Decoder(MessagesRequest).decode
_decode_any = msgspec.json.Decoder().decode


def read_messages(body: bytes, reader: ChatReader, aliases: ArgumentAliases, scope: bytes = b"") -> AnswerRequest:
    """Parse a request's body.

    Raises:
        ValueError: the body is invalid; says what is wrong.
        CallRefused: litellm is not available.
    """
    request = decoded(_decode, body)
    if request.mcp_servers:
        raise ValueError("`mcp_servers` is not served: the agent calls its tools itself")
    check_max_tokens(request.max_tokens)
    _check_size(request.messages, request.system, request.tools)
    messages = [_message(message, place) for place, message in enumerate(request.messages)]
    # What only the provider can run, or knows the schema of, is left out.
    tools = [tool for tool in request.tools or () if tool.get("type") in (None, "custom") and tool.get("name")]
    format_ = request.output_format or (request.output_config or {}).get("format")
    fields: dict[str, Any] = {
        "system": _system(request.system),
        "tools": tools,
        "tool_choice": request.tool_choice,
        "stop_sequences": request.stop_sequences,
        "max_tokens": request.max_tokens,
        "output_format": format_,
    }
    chat = chat_of_messages({"messages": messages, **{name: value for name, value in fields.items() if value}})
    _put_calls_right(chat, messages, aliases.of(scope))
    _put_tools_right(chat, tools, request.tool_choice)
    body = msgspec.json.encode({**chat, "model": request.model, "stream": request.stream})
    return reader.read(body, scope=scope)


def written(call_id: str, given: Any, aliases: ArgumentAliases) -> str:
    """A call's arguments in the model's original text."""
    match given:
        case {"INVALID_JSON": str(text), **rest} if not rest:  # as UNREADABLE has it
            return text
        case _:
            return aliases.find(call_id, cast(object, given))


def estimated_tokens(body: bytes) -> int:
    """About how many tokens a request's prompt has, without a model call.

    Raises:
        ValueError: the body is not a valid request.
    """
    request: Any = decoded(_decode_any, body)
    if not isinstance(request, dict) or "messages" not in request:
        raise ValueError("the request is not understood: messages is missing")
    prompt = cast(dict[str, Any], request)
    try:
        _check_size(prompt.get("messages"), prompt.get("system"), prompt.get("tools"))
        size = sum(_sizes([prompt.get("messages"), prompt.get("system"), prompt.get("tools")]))
    except RecursionError:
        raise ValueError("the request nests too deeply") from None
    return max(1, size // _BYTES_A_TOKEN)


def _check_size(messages: object, system: object, tools: object) -> None:
    if isinstance(tools, list):
        check_tools(cast(list[Any], tools))
    parts = Parts()
    parts.add_content(system)
    if not isinstance(messages, list):
        return
    check_messages(cast(list[Any], messages))
    for message in cast(list[Any], messages):
        if isinstance(message, dict):
            parts.add_content(cast(dict[str, Any], message).get("content"))


def _sizes(value: Any) -> Iterator[int]:
    if isinstance(value, str):
        yield len(value.encode(errors="replace"))
    elif isinstance(value, list):
        for inner in cast(list[Any], value):
            yield from _sizes(inner)
    elif isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        if fields.get("type") == "base64":
            yield _PICTURE_TOKENS * _BYTES_A_TOKEN
            return
        for name, inner in fields.items():
            if name not in ("cache_control", "signature"):
                yield len(name) + 4
                yield from _sizes(inner)
    else:
        yield 4


def _system(system: str | list[dict[str, Any]] | None) -> str | list[dict[str, Any]] | None:
    """The system prompt without the billing text that Claude Code adds, which changes with each call."""
    if not isinstance(system, list):
        return system
    return [block for block in system if not str(block.get("text", "")).startswith(_BILLING)]


def _message(message: dict[str, Any], place: int) -> dict[str, Any]:
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES:
        raise ValueError(f"messages[{place}]: unknown role {role!r}")
    if isinstance(content, str):
        return {"role": role, "content": content}
    if not isinstance(content, list):
        raise ValueError(f"messages[{place}]: content is text or a list of blocks")
    try:
        return {"role": role, "content": [_block(block) for block in cast(list[Any], content)]}
    except ValueError as error:
        raise ValueError(f"messages[{place}]: {error}") from None


def _block(block: Any) -> dict[str, Any]:
    """A content block in a form that a chat model can read."""
    if not isinstance(block, dict):
        raise ValueError("a content block is an object")
    known = cast(dict[str, Any], block)
    kind = known.get("type")
    if kind == "document":
        return _document(known)
    if kind == "image":
        source: Any = known.get("source")
        kept = cast(dict[str, Any], source) if isinstance(source, dict) else {}
        if kept.get("type") != "base64":
            raise ValueError(f"an image of source {kept.get('type')!r} is not fetched; send it as base64")
        if not str(kept.get("media_type")).startswith("image/"):
            raise ValueError(f"an image holds {str(kept.get('media_type'))[:80]!r}, which is no image")
    if kind == "tool_use":
        for name in ("id", "name"):
            if not isinstance(known.get(name), str):
                raise ValueError(f"a tool_use block lacks its {name}")
    if kind == "tool_result":
        if not isinstance(known.get("tool_use_id"), str):
            raise ValueError("a tool_result block lacks its tool_use_id")
        content: Any = known.get("content")
        if isinstance(content, list):
            return {**known, "content": [_block(inner) for inner in cast(list[Any], content)]}
    return known


def _document(block: dict[str, Any]) -> dict[str, Any]:
    source: Any = block.get("source")
    if isinstance(source, dict):
        fields = cast(dict[str, Any], source)
        if fields.get("type") == "text" and isinstance(fields.get("data"), str):
            return {"type": "text", "text": fields["data"]}
        if fields.get("type") == "content" and isinstance(fields.get("content"), str):
            return {"type": "text", "text": fields["content"]}
        if fields.get("type") == "base64" and str(fields.get("media_type")).startswith(("application/", "text/")):
            # As a picture, which litellm passes on everywhere; `chat_of_messages` makes it what it was.
            return {"type": "image", "source": fields}
    raise ValueError("a document is read as text or as base64 (application/pdf); the hub fetches and keeps none")


def _put_calls_right(chat: dict[str, Any], messages: list[dict[str, Any]], aliases: ArgumentAliases) -> None:
    """Restore tool names and arguments to the model's original text: litellm truncates names to 64 characters and
    reformats arguments.
    """
    asked = [
        block
        for message in messages
        if message["role"] == "assistant" and isinstance(message["content"], list)
        for block in cast(list[dict[str, Any]], message["content"])
        if block.get("type") == "tool_use"
    ]
    calls = [call for message in chat["messages"] for call in message.get("tool_calls") or ()]
    if [call["id"] for call in calls] != [block["id"] for block in asked]:
        raise ValueError("the tool calls of the conversation are not understood")
    for call, block in zip(calls, asked, strict=True):
        arguments = written(block["id"], block.get("input", {}), aliases)
        call["function"] = {"name": block["name"], "arguments": arguments}


def _put_tools_right(chat: dict[str, Any], tools: list[dict[str, Any]], choice: dict[str, Any] | None) -> None:
    names = [tool["name"] for tool in tools]
    for tool, name in zip(chat.get("tools") or (), names, strict=True):
        tool["function"]["name"] = name
    chat.pop("web_search_options", None)
    if choice is None:
        return
    if choice.get("type") == "tool":
        if choice.get("name") in names:
            chat["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
        else:
            chat.pop("tool_choice", None)
    if choice.get("disable_parallel_tool_use"):
        chat["parallel_tool_calls"] = False
