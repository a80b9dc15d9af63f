"""Tool calls as models write them into their text: parsers by name, as vLLM names them."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from mcp_types import Tool

from envhub.errors import ConfigError
from envhub.messages import ToolRequest


class Spoken(NamedTuple):
    """An answer's text, taken apart."""

    words: str
    requests: tuple[ToolRequest, ...] = ()


ToolParser = Callable[[str, Sequence[Tool]], Spoken]
"""Takes an answer's text apart, given the tools that were shown; what it does not understand it leaves in the words."""

_BLOCK = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_FUNCTION = re.compile(r"\A\s*<function=([^>\n]+)>(.*?)(?:</function>\s*|\Z)\Z", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>(.*?)(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
_PLAIN = frozenset({"string", "str", "text"})


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
    decoder = json.JSONDecoder()
    while rest:
        try:
            found, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):
            return Spoken(text)
        request = _call(found, "parameters") or _call(found, "arguments")
        if request is None:
            return Spoken(text)
        requests.append(request)
        rest = rest[end:].lstrip()
        if rest and not rest.startswith(";"):
            return Spoken(text)
        rest = rest.removeprefix(";").lstrip()
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
    for block in _BLOCK.finditer(text):
        request = read(block[1])
        if request is None:
            return Spoken(text)
        words.append(text[end : block.start()])
        requests.append(request)
        end = block.end()
    if not requests:
        return Spoken(text)
    words.append(text[end:])
    # What stands between calls is layout; what stands before them is said.
    kept = [words[0], *(each for each in words[1:] if each.strip())]
    return Spoken("".join(kept) if any(each.strip() for each in kept) else "", tuple(requests))


def _json(text: str) -> object:
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
    for parameter in _PARAMETER.finditer(function[2]):
        key = parameter[1].strip()
        # One line break after the opening mark and one before the closing one are layout.
        value = parameter[2].removeprefix("\n").removesuffix("\n")
        arguments[key] = _value(value, properties.get(key))
    return ToolRequest(id="", name=name, arguments=_dumped(arguments))


def _value(text: str, schema: object) -> object:
    """A parameter's value as its schema has it; words where it is no such value."""
    kind = cast(dict[str, object], schema).get("type") if isinstance(schema, dict) else None
    if kind in _PLAIN:
        return text
    try:
        return cast(object, json.loads(text))
    except (ValueError, RecursionError):
        return text


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
