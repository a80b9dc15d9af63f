"""MCP tools as typed Python methods with Google-style docstrings, from which TRL builds its tool schemas."""

import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from mcp_types import Tool

from rollouthub.errors import ConfigError

_RESERVED = frozenset({"reset", "get_reward"})
"""Method names that TRL gives a meaning of its own."""
_TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict[str, Any],
    "null": None,
}

Call = Callable[[Any, str, dict[str, Any]], Any]
"""The function that a method calls: with its object, the tool's name, and the given arguments."""


def methods_of(tools: Sequence[Tool], call: Call) -> dict[str, Callable[..., Any]]:
    """A method for each tool, by a name that is valid in Python and not reserved by TRL.

    Raises:
        ConfigError: two tools would have one method name, or an argument's name is not valid in Python.
    """
    found: dict[str, Callable[..., Any]] = {}
    for tool in tools:
        name = method_name(tool.name)
        if name in found:
            raise ConfigError(f"two tools would be the method {name!r}; one of them is {tool.name!r}")
        found[name] = _method(name, tool, call)
    return found


def method_name(tool: str) -> str:
    """A tool's name as a method's: `read-file` is `read_file`."""
    name = re.sub(r"\W", "_", tool, flags=re.ASCII)
    if name in _RESERVED or name.startswith("_") or not name.isidentifier() or keyword.iskeyword(name):
        return f"tool_{name.lstrip('_')}"
    return name


def _method(name: str, tool: Tool, call: Call) -> Callable[..., Any]:
    def method(self: Any, **arguments: Any) -> Any:
        return call(self, tool.name, arguments)

    schema: dict[str, Any] = tool.input_schema
    properties = cast(dict[str, dict[str, Any]], schema.get("properties") or {})
    required = set(cast(list[str], schema.get("required") or []))
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    annotations: dict[str, Any] = {}
    notes: list[str] = []
    for argument, described in properties.items():
        if not argument.isidentifier() or keyword.iskeyword(argument) or argument == "self":
            raise ConfigError(
                f"tool {tool.name!r} takes an argument {argument!r}, which cannot be one of a Python method; "
                "play this environment with rollout_func"
            )
        hint: Any = type_of(described, cast(dict[str, Any], schema.get("$defs") or {}))
        default = inspect.Parameter.empty
        if argument not in required:
            # What is not given stays out of the call, so that the tool's own default holds.
            default = described.get("default")
            hint = hint if default is not None else hint | None if hint is not Any else Any
        annotations[argument] = hint
        parameters.append(inspect.Parameter(argument, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
        words = " ".join(str(described.get("description") or f"The {argument.replace('_', ' ')}.").split())
        notes.append(f"    {argument}: {words}")
    method.__name__ = name
    method.__qualname__ = name
    method.__doc__ = _docstring(tool, notes)
    method.__annotations__ = {**annotations, "return": str}
    vars(method)["__signature__"] = inspect.Signature(parameters, return_annotation=str)
    return method


def _docstring(tool: Tool, notes: Sequence[str]) -> str:
    """A Google-style docstring for a tool. Lines of the description that look like a section header are indented."""
    words = (tool.description or tool.name).strip()
    lines = [f" {line}" if re.match(r"(Args|Returns|Raises):\s*$", line) else line for line in words.splitlines()]
    arguments = ["", "Args:", *notes] if notes else []
    return "\n".join([*lines, *arguments, "", "Returns:", "    str: What the tool answers.", ""])


def type_of(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Any:
    """The Python type of a JSON schema, as precisely as TRL's schemas can express it; otherwise `Any`."""
    if isinstance(reference := schema.get("$ref"), str):
        target = cast(dict[str, Any], definitions.get(reference.rpartition("/")[2]) or {})
        return type_of(target, {})  # one level: a type that holds itself has no end
    if "const" in schema or schema.get("enum"):
        values = cast(list[Any], schema.get("enum") or [schema["const"]])
        return Literal[*values] if all(isinstance(value, str | int | bool) for value in values) else Any
    if isinstance(choices := schema.get("anyOf") or schema.get("oneOf"), list):
        return _union([type_of(choice, definitions) for choice in cast(list[dict[str, Any]], choices)])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union([type_of({**schema, "type": each}, definitions) for each in cast(list[str], kind)])
    if kind == "array":
        return list[type_of(cast(dict[str, Any], schema.get("items") or {}), definitions)]
    return _TYPES.get(kind, Any) if isinstance(kind, str) else Any


def _union(kinds: Sequence[Any]) -> Any:
    if not kinds or Any in kinds:
        return Any
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    return union
