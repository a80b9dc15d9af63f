"""Converts BFCL's functions to MCP tools, with names and JSON schemas that MCP clients accept."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

from mcp_types import Tool
from pydantic import JsonValue

from rollouthub_servers.bfcl.row import RowTool
from rollouthub_servers.foreign.tool_names import HUB_TOOLS

_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64
_TYPES = {
    "dict": "object",
    "float": "number",
    "double": "number",
    "long": "integer",
    "tuple": "array",
    "list": "array",
    "bool": "boolean",
    "String": "string",
}
_JSON_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})


def shown_names(names: Iterable[str]) -> dict[str, str]:
    """Name that the agent sees → the function's own; dots become underscores, as in BFCL for most models."""
    shown: dict[str, str] = {}
    for name in names:
        plain = _UNFIT.sub("_", name)[:_LONGEST] or "_"
        unique, count = plain, 1
        while unique in shown or unique in HUB_TOOLS:
            count += 1
            unique = f"{plain[: _LONGEST - 4]}_{count}"
        shown[unique] = name
    return shown


def shown_tools(names: dict[str, str], tools: Sequence[RowTool]) -> list[Tool]:
    """The tools, with the names that the agent sees."""
    by_name = {tool.name: tool for tool in tools}
    return [
        Tool(name=shown, description=by_name[own].description, input_schema=_schema(by_name[own].parameters))
        for shown, own in names.items()
        if own in by_name
    ]


def _schema(parameters: dict[str, JsonValue]) -> dict[str, Any]:
    schema = _translated(parameters)
    return {**schema, "type": "object", "properties": schema.get("properties", {})}


def _translated(schema: dict[str, JsonValue]) -> dict[str, Any]:
    """The schema without types and keys that JSON schema does not define; `any` becomes no type."""
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type":
            word = _TYPES.get(str(value), str(value))
            if word in _JSON_TYPES:
                made["type"] = word
        elif key == "properties" and isinstance(value, dict):
            made[key] = {name: _translated(cast(Any, each)) for name, each in value.items() if isinstance(each, dict)}
        elif key == "items" and isinstance(value, dict):
            made[key] = _translated(value)
        elif key == "optional" or (key == "required" and not isinstance(value, list)):
            continue  # of a single argument; the list above it says the same
        else:
            made[key] = value
    return made
