"""Sample arguments for a tool: unusual but valid ones, and invalid ones."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from mcp_types import Tool

_TEXTS = ("x", "", "0", "💥 \n\t", "../../etc/passwd", "a" * 300)
_NUMBERS = (1, 0, -1, 10**6)
_WRONG: Mapping[str, Any] = {
    "string": 7,
    "integer": "seven",
    "number": "seven",
    "boolean": "perhaps",
    "array": "not a list",
    "object": "not an object",
    "null": "something",
}


def well_formed(tool: Tool, text: str | None = None) -> Iterator[dict[str, Any]]:
    """Arguments that fit the tool's schema; with `text`, every free string is this text instead of an unusual one."""
    schema = tool.input_schema
    properties = cast(dict[str, Any], schema.get("properties", {}))
    required = cast(list[str], schema.get("required", []))
    count = 1 if text is not None or not properties else len(_TEXTS)
    for turn in range(count):
        wanted = properties if turn % 2 == 0 else {key: properties[key] for key in required if key in properties}
        yield {key: _value(field, schema, turn, text) for key, field in wanted.items()}


def ill_formed(tool: Tool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Arguments that no tool with this schema may accept, each with what is wrong."""
    schema = tool.input_schema
    properties = cast(dict[str, Any], schema.get("properties", {}))
    fitting = next(well_formed(tool))
    if schema.get("additionalProperties") is False:  # a foreign server may well take what it does not name
        yield "an unknown argument", {**fitting, "no_such_argument": 1}
    for name in cast(list[str], schema.get("required", [])):
        yield f"no {name!r}", {key: value for key, value in fitting.items() if key != name}
    for name, field in properties.items():
        kind = _resolved(field, schema).get("type")
        if isinstance(kind, str) and kind in _WRONG:
            yield f"{name} = {_WRONG[kind]!r}", {**fitting, name: _WRONG[kind]}


def _value(field: Any, schema: Mapping[str, Any], turn: int, text: str | None) -> Any:
    field = _resolved(field, schema)
    if "const" in field:
        return field["const"]
    if choices := field.get("enum"):
        return choices[turn % len(choices)]
    match field.get("type"):
        case "string":
            return _text(field, turn, text)
        case "integer" | "number":
            return _number(field, turn)
        case "boolean":
            return turn % 2 == 0
        case "array":
            size = max(int(field.get("minItems", 0)), 0 if turn % 2 and "minItems" not in field else 1)
            return [_value(field.get("items", {}), schema, turn, text) for _ in range(size)]
        case "object":
            properties = cast(dict[str, Any], field.get("properties", {}))
            return {key: _value(inner, schema, turn, text) for key, inner in properties.items()}
        case "null":
            return None
        case _:
            return text or "x"


def _text(field: Mapping[str, Any], turn: int, text: str | None) -> str:
    chosen = _TEXTS[turn % len(_TEXTS)] if text is None else text
    least, most = int(field.get("minLength", 0)), int(field.get("maxLength", 10_000))
    return chosen.ljust(least, "x")[:most]


def _number(field: Mapping[str, Any], turn: int) -> int | float:
    number = _NUMBERS[turn % len(_NUMBERS)]
    low = field.get("minimum", field.get("exclusiveMinimum"))
    high = field.get("maximum", field.get("exclusiveMaximum"))
    if low is not None:
        number = max(number, low + ("exclusiveMinimum" in field))
    if high is not None:
        number = min(number, high - ("exclusiveMaximum" in field))
    return number


def _resolved(field: Any, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a field, with references resolved and the first of its alternatives chosen."""
    found = cast(dict[str, Any], field) if isinstance(field, dict) else {}
    for _ in range(10):
        if isinstance(reference := found.get("$ref"), str):
            name = reference.rpartition("/")[2]
            found = cast(dict[str, Any], schema.get("$defs", {}).get(name, {}))
        elif choices := found.get("anyOf") or found.get("oneOf"):
            found = cast(dict[str, Any], choices[0])
        else:
            break
    return found
