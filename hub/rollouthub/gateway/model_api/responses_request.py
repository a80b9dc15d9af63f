"""Parses requests of the OpenAI Responses API, by translating them to chat completions."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from msgspec import Struct

from rollouthub.gateway.model_api.argument_aliases import ArgumentAliases
from rollouthub.gateway.model_api.chat_request import ChatReader
from rollouthub.gateway.model_api.dialect import AnswerRequest
from rollouthub.gateway.model_api.json_body import decoded
from rollouthub.gateway.model_api.litellm_translation import chat_of_responses, namespaces_of
from rollouthub.gateway.model_api.request_bounds import Parts, check_max_tokens, check_messages, check_tools

_TOOLS = ("function", "custom", "namespace")
"""Types of tools that a chat model can use; tools that only a provider can run are left out."""
_ITEMS = ("function_call", "custom_tool_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_SEALED = "rollouthub:"
"""Prefix of the hub's text in the field for encrypted reasoning."""


class ResponsesRequest(Struct):
    """The fields of a request body that shape the answer."""

    input: str | list[dict[str, Any]]
    model: str = ""
    instructions: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    text: dict[str, Any] | None = None
    include: list[str] | None = None
    stream: bool | None = False
    background: bool | None = False
    previous_response_id: str | None = None
    conversation: Any = None
    prompt: Any = None


@dataclass(frozen=True, slots=True)
class ResponsesShape:
    """The parts of a request that are needed to write the answer."""

    custom: frozenset[str] = frozenset()
    """The names of tools whose input is plain text instead of JSON."""
    namespaces: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    with_sealed: bool = False
    """Whether the agent wants reasoning also in the encrypted field, to send it back."""


_decode = msgspec.json.Decoder(ResponsesRequest).decode


def read_responses(body: bytes, reader: ChatReader, aliases: ArgumentAliases, scope: bytes = b"") -> AnswerRequest:
    """Parse a request's body.

    Raises:
        ValueError: the body is invalid; says what is wrong.
        CallRefused: litellm is not available.
    """
    request = decoded(_decode, body)
    _check(request)
    tools = [tool for tool in request.tools or () if tool.get("type") in _TOOLS]
    items, thoughts = _items(request.input)
    chat = chat_of_responses(
        {
            "input": items,
            "instructions": request.instructions,
            "tools": tools,
            "tool_choice": _choice(request.tool_choice),
            "parallel_tool_calls": request.parallel_tool_calls,
            "max_output_tokens": request.max_output_tokens,
            "text": request.text,
        }
    )
    names = _custom_names(tools)
    for message in chat["messages"]:
        _put_right(message, thoughts, names, aliases.of(scope))
    _put_tools_right(chat)
    chat |= {"model": request.model, "stream": request.stream}
    shape = ResponsesShape(names, namespaces_of(tools), "reasoning.encrypted_content" in (request.include or ()))
    return reader.read(msgspec.json.encode(chat), shape, scope)


def _check(request: ResponsesRequest) -> None:
    check_max_tokens(request.max_output_tokens, "max_output_tokens")
    check_tools(request.tools)
    if not isinstance(request.input, str):
        check_messages(request.input, "input")
        parts = Parts()
        for item in request.input:
            for name in ("content", "output", "summary"):
                parts.add_content(item.get(name))
    if request.previous_response_id or request.conversation:
        raise ValueError(
            "the hub keeps no conversations: send all items with each call instead of `previous_response_id` or "
            "`conversation` (`store` false)"
        )
    if request.background:
        raise ValueError("`background` is not served; wait for the answer, or stream it")
    if request.prompt:
        raise ValueError("`prompt` names a template of a provider's; send `instructions` and `input`")


def _items(given: str | list[dict[str, Any]]) -> tuple[str | list[dict[str, Any]], list[str]]:
    """The items to pass to litellm, and the texts of the reasoning items. litellm would trim these texts, so the
    items hold only their numbers.
    """
    if isinstance(given, str):
        return given, []
    items: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for place, item in enumerate(given):
        kind = item.get("type") or "message"
        if kind == "item_reference":
            raise ValueError(f"input[{place}] refers to an item; the hub keeps none: send it whole (`store` false)")
        if kind == "reasoning":
            if thought := _thought(item):
                items.append({"type": "reasoning", "summary": [{"type": "summary_text", "text": str(len(thoughts))}]})
                thoughts.append(thought)
        elif kind == "message":
            items.append({**item, "type": kind, "content": _content(item.get("content"), place)})
        elif kind in _OUTPUTS:
            output = item.get("output")
            items.append({**item, "output": _content(output, place)} if isinstance(output, list) else item)
        elif kind in _ITEMS:
            items.append(item)
        # The rest is of tools that only a provider can run, and of providers' own memory.
    return items, thoughts


def _content(content: Any, place: int) -> Any:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError(f"input[{place}]: a message lacks content")
    try:
        return [_part(part) for part in cast(list[Any], content)]
    except ValueError as error:
        raise ValueError(f"input[{place}]: {error}") from None


def _part(part: Any) -> dict[str, Any]:
    if not isinstance(part, dict):
        raise ValueError("content is text or a list of parts")
    known = cast(dict[str, Any], part)
    match kind := known.get("type"):
        case "refusal":
            return {"type": "output_text", "text": known.get("refusal")}
        case "input_image":
            return _picture(known)
        # As pictures, which litellm passes on everywhere; `chat_of_responses` makes them what they were.
        case "input_file":
            return {"type": "input_image", "image_url": _file(known)}
        case "input_audio":
            return {"type": "input_image", "image_url": _sound(known)}
        case "input_text" | "output_text" | "text":
            return known
        case _:
            raise ValueError(f"a content part of type {kind!r} is not understood")


def _picture(part: dict[str, Any]) -> dict[str, Any]:
    url = part.get("image_url")
    if not isinstance(url, str):
        raise ValueError("the hub keeps no files; send a base64 data URI in image_url")
    if url.startswith("data:") and not url.startswith("data:image/"):
        raise ValueError(f"an input_image holds {url[5:45]!r}, which is no image")
    return part


def _file(part: dict[str, Any]) -> str:
    """The data URI of an `input_file`."""
    data = part.get("file_data")
    if not isinstance(data, str):
        where = "fetches no addresses" if part.get("file_url") else "keeps no files"
        raise ValueError(f"the hub {where}; send an input_file as a base64 data URI in file_data")
    if not data.startswith(("data:application/", "data:text/")):
        raise ValueError(f"file_data begins with {data[:40]!r}; send a document as data:application/pdf;base64,…")
    return data


def _sound(part: dict[str, Any]) -> str:
    """An `input_audio` as a data URI."""
    match part.get("input_audio"):
        case {"data": str(data), "format": str(kind)}:
            return f"data:audio/{kind};base64,{data}"
        case _:
            raise ValueError("an input_audio lacks its data and format")


def _thought(item: Mapping[str, Any]) -> str:
    """The text of a reasoning item, from the first field that has it unchanged."""
    sealed = item.get("encrypted_content")
    if isinstance(sealed, str) and sealed.startswith(_SEALED):
        try:
            return base64.b64decode(sealed.removeprefix(_SEALED), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            pass
    for name in ("content", "summary"):
        parts: Any = item.get(name)
        if isinstance(parts, list):
            texts = [
                cast(dict[str, Any], part).get("text") for part in cast(list[Any], parts) if isinstance(part, dict)
            ]
            if said := "\n".join(text for text in texts if isinstance(text, str) and text):
                return said
    return ""


def sealed_thought(text: str) -> str:
    """Reasoning for the encrypted field, which agents that keep no plain reasoning send back."""
    return _SEALED + base64.b64encode(text.encode()).decode()


def _custom_names(tools: list[dict[str, Any]]) -> frozenset[str]:
    nested = [tool for space in tools if isinstance(space.get("tools"), list) for tool in space["tools"]]
    every: list[Any] = [*tools, *nested]
    return frozenset(
        str(cast(dict[str, Any], tool).get("name"))
        for tool in every
        if isinstance(tool, dict) and cast(dict[str, Any], tool).get("type") == "custom"
    )


def _choice(choice: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    """The tool choice; None if it names a type of tool that is left out."""
    if isinstance(choice, dict) and choice.get("type") not in ("function", "custom"):
        if choice.get("type") == "allowed_tools":
            raise ValueError("tool_choice of type 'allowed_tools' is not served; send only the tools that are allowed")
        return None
    return choice


def _put_right(message: dict[str, Any], thoughts: list[str], custom: frozenset[str], aliases: ArgumentAliases) -> None:
    """Restore reasoning, text and custom tool arguments of a message to the model's original text."""
    if message.get("role") != "assistant":
        return
    if marks := message.get("reasoning_content"):
        message["reasoning_content"] = "\n".join(thoughts[int(mark)] for mark in str(marks).split("\n"))
    content = message.get("content")
    if isinstance(content, list):
        parts = cast(list[dict[str, Any]], content)
        # One answer's words, cut at its tool calls.
        if all(part.get("type") == "text" for part in parts):
            message["content"] = "".join(str(part.get("text")) for part in parts)
    for call in message.get("tool_calls") or ():
        function = call["function"]
        if function["name"] in custom and (arguments := function["arguments"]):
            function["arguments"] = aliases.find(call["id"], msgspec.json.decode(arguments))


def _put_tools_right(chat: dict[str, Any]) -> None:
    names: set[str] = set()
    for tool in chat.get("tools") or ():
        names.add(tool["function"]["name"])
        # What has no description is given an empty one, which some chat templates show.
        if not tool["function"].get("description"):
            tool["function"].pop("description", None)
    choice = chat.get("tool_choice")
    if isinstance(choice, dict) and cast(dict[str, Any], choice)["function"]["name"] not in names:
        del chat["tool_choice"]
