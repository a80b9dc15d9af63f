"""Parsers of tool calls in models' text, by name as in vLLM."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from mcp_types import Tool

from rollouthub.errors import ConfigError
from rollouthub.event_loop import is_crowded
from rollouthub.messages import ToolRequest
from rollouthub.models.direct.answer_bounds import MOST_CALLS


class Spoken(NamedTuple):
    """An answer's text, split into plain text and tool requests."""

    words: str
    requests: tuple[ToolRequest, ...] = ()


ToolParser = Callable[[str, Sequence[Tool]], Spoken]
"""Splits an answer's text, given the tools that were shown; what it cannot parse stays in the text."""

# Names cannot hold what begins the next mark: looking for each one's end stays linear.
_FUNCTION = re.compile(r"\s*+<function=([^<>\n]+)>")
_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>")
_SPACES = re.compile(r"\s*+")
_OPENING, _CLOSING = "<tool_call>", "</tool_call>"
_PLAIN = frozenset({"string", "str", "text"})
_MOST_PARAMETERS = 1000
"""Most parameters of one request; a request with more stays plain text."""


def hermes(text: str, tools: Sequence[Tool]) -> Spoken:
    """Parse `<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen 2.5 and 3."""
    return _blocks(text, lambda block: _call(_json(block), "arguments"))


def qwen3_xml(text: str, tools: Sequence[Tool]) -> Spoken:
    """Parse `<tool_call><function=NAME><parameter=KEY>VALUE</parameter>…</function></tool_call>`: Qwen3-Coder and
    later.
    """
    schemas = {tool.name: tool.input_schema for tool in tools}
    return _blocks(text, lambda block: _xml_call(block, schemas))


def llama3_json(text: str, tools: Sequence[Tool]) -> Spoken:
    """Objects `{"name": …, "parameters": …}`, separated by `;`: Llama 3.1 and later."""
    rest, requests = text.strip().removeprefix("<|python_tag|>").strip(), list[ToolRequest]()
    if is_crowded(rest):
        return Spoken(text)
    decoder = json.JSONDecoder()
    at = 0
    while at < len(rest):
        try:
            found, end = decoder.raw_decode(rest, at)
        except (ValueError, RecursionError):
            return Spoken(text)
        request = _call(found, "parameters") or _call(found, "arguments")
        if request is None or len(requests) == MOST_CALLS:
            return Spoken(text)
        requests.append(request)
        at = _after_spaces(rest, end)
        if at < len(rest):
            if rest[at] != ";":
                return Spoken(text)
            at = _after_spaces(rest, at + 1)
    return Spoken("", tuple(requests)) if requests else Spoken(text)


def no_tools(text: str, tools: Sequence[Tool]) -> Spoken:
    """Treat the whole answer as plain text."""
    return Spoken(text)


TOOL_PARSERS: dict[str, ToolParser] = {
    "hermes": hermes,
    "qwen3_xml": qwen3_xml,
    "qwen3_coder": qwen3_xml,
    "llama3_json": llama3_json,
    "none": no_tools,
}


def find_tool_parser(parser: str | ToolParser) -> ToolParser:
    """The parser with this name; a function is returned unchanged.

    Raises:
        ConfigError: no parser has that name.
    """
    if not isinstance(parser, str):
        return parser
    found = TOOL_PARSERS.get(parser.replace("-", "_"))
    if found is None:
        known = ", ".join(TOOL_PARSERS)
        raise ConfigError(f"no parser of tool calls is named {parser!r}; take one of {known}, or give a function")
    return found


def _blocks(text: str, read: Callable[[str], ToolRequest | None]) -> Spoken:
    """The requests in `<tool_call>` blocks; if one cannot be parsed, the whole answer is plain text.

    Running only the valid calls would hide from the model that the others were malformed.
    """
    requests = list[ToolRequest]()
    words, end = list[str](), 0
    while (start := text.find(_OPENING, end)) >= 0:
        close = text.find(_CLOSING, start)
        request = read(text[start + len(_OPENING) : close if close >= 0 else len(text)])
        if request is None or len(requests) == MOST_CALLS:
            return Spoken(text)
        words.append(text[end:start])
        requests.append(request)
        end = close + len(_CLOSING) if close >= 0 else len(text)
    if not requests:
        return Spoken(text)
    words.append(text[end:])
    # What stands between calls is layout; what stands before them is said.
    kept = [words[0], *(each for each in words[1:] if each.strip())]
    return Spoken("".join(kept) if any(each.strip() for each in kept) else "", tuple(requests))


def _json(text: str) -> object:
    if is_crowded(text):
        return None
    try:
        return cast(object, json.loads(text))
    except (ValueError, RecursionError):
        return None


def _call(found: object, arguments_key: str) -> ToolRequest | None:
    """A tool request from an object with a name. Arguments that are not an object are passed on, to be refused by
    the tool call.
    """
    if not isinstance(found, dict):
        return None
    fields = cast(dict[str, object], found)
    name = fields.get("name")
    if not isinstance(name, str) or not name or not _is_text(name) or arguments_key not in fields:
        return None
    return ToolRequest(id="", name=name, arguments=_dumped(fields[arguments_key]))


def _xml_call(block: str, schemas: dict[str, dict[str, Any]]) -> ToolRequest | None:
    function = _FUNCTION.match(block)
    if function is None or not _is_text(name := function[1].strip()) or not name:
        return None
    properties: dict[str, Any] = schemas.get(name, {}).get("properties") or {}
    arguments: dict[str, object] = {}
    body = block[function.end() :]
    if (closed := body.rstrip()).endswith("</function>"):
        body = closed.removesuffix("</function>")
    for place, parameter in enumerate(_PARAMETER.finditer(body)):
        if place == _MOST_PARAMETERS:
            return None
        key = parameter[1].strip()
        following = body.find("<parameter=", parameter.end())
        last = following if following >= 0 else len(body)
        close = body.find("</parameter>", parameter.end(), last)
        # One line break after the opening mark and one before the closing one are layout.
        value = body[parameter.end() : close if close >= 0 else last].removeprefix("\n").removesuffix("\n")
        arguments[key] = _value(value, properties.get(key))
    return ToolRequest(id="", name=name, arguments=_dumped(arguments))


def _value(text: str, schema: object) -> object:
    """A parameter's value parsed by its schema; text if it does not parse, or has more values than the hub reads."""
    kind = cast(dict[str, object], schema).get("type") if isinstance(schema, dict) else None
    if kind in _PLAIN or is_crowded(text):
        return text
    try:
        return cast(object, json.loads(text))
    except (ValueError, RecursionError):
        return text


def _after_spaces(text: str, place: int) -> int:
    found = _SPACES.match(text, place)
    return place if found is None else found.end()


def _dumped(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if _is_text(text) else json.dumps(value)


def _is_text(text: str) -> bool:
    """Whether the text can be encoded in UTF-8; an unpaired surrogate cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
