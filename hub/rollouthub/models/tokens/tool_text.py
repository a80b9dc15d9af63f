"""Tool calls as models write them into their text: parsers by name, as vLLM names them."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from mcp_types import Tool

from rollouthub.errors import ConfigError
from rollouthub.event_loop import is_crowded
from rollouthub.messages import ToolRequest
from rollouthub.models.direct.completion import MOST_CALLS


class Spoken(NamedTuple):
    """An answer's text, taken apart."""

    words: str
    requests: tuple[ToolRequest, ...] = ()


ToolParser = Callable[[str, Sequence[Tool]], Spoken]
"""Takes an answer's text apart, given the tools that were shown; what it does not understand it leaves in the words."""

# Names cannot hold what begins the next mark: looking for each one's end stays linear.
_FUNCTION = re.compile(r"\s*+<function=([^<>\n]+)>")
_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>")
_SPACES = re.compile(r"\s*+")
_OPENING, _CLOSING = "<tool_call>", "</tool_call>"
_PLAIN = frozenset({"string", "str", "text"})
_MOST_PARAMETERS = 1000
"""Of one request. What asks for more is words."""


def hermes(text: str, tools: Sequence[Tool]) -> Spoken:
    """`<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen 2.5 and 3."""
    return _blocks(text, lambda block: _call(_json(block), "arguments"))


def qwen3_xml(text: str, tools: Sequence[Tool]) -> Spoken:
    """`<tool_call><function=NAME><parameter=KEY>VALUE</parameter>…</function></tool_call>`: Qwen3-Coder and later."""
    schemas = {tool.name: tool.input_schema for tool in tools}
    return _blocks(text, lambda block: _xml_call(block, schemas))


def llama3_json(text: str, tools: Sequence[Tool]) -> Spoken:
    """An answer that is nothing but `{"name": …, "parameters": …}`, several apart by `;`: Llama 3.1 and later."""
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
    """An answer is words alone."""
    return Spoken(text)


TOOL_PARSERS: dict[str, ToolParser] = {
    "hermes": hermes,
    "qwen3_xml": qwen3_xml,
    "qwen3_coder": qwen3_xml,
    "llama3_json": llama3_json,
    "none": no_tools,
}


def find_tool_parser(parser: str | ToolParser) -> ToolParser:
    """A parser by its name, or as it is.

    Raises:
        ConfigError: none has that name.
    """
    if not isinstance(parser, str):
        return parser
    found = TOOL_PARSERS.get(parser.replace("-", "_"))
    if found is None:
        known = ", ".join(TOOL_PARSERS)
        raise ConfigError(f"no parser of tool calls is named {parser!r}; take one of {known}, or give a function")
    return found


def _blocks(text: str, read: Callable[[str], ToolRequest | None]) -> Spoken:
    """The requests in `<tool_call>` blocks; one that is not understood leaves the whole answer words.

    Half of what a model asked for is not what it asked for: running the sound calls alone would hide from it that the
    others were broken.
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
    """A request in an object with a name; arguments that are no object are kept, and refused where they are used."""
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
    """A parameter's value as its schema has it; words where it is no such value, or holds more than is read."""
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
    """Whether it can be stored and sent: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
