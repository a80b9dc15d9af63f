"""One value of a tool's JSON schema: its prompt, and the parsing of a typed line."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

EMPTY = '""'
"""What a person types for an empty text, since an empty line leaves an optional value out."""
_WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "yes or no", "null": "null"}
_YES, _NO = frozenset({"y", "yes", "true"}), frozenset({"n", "no", "false"})
_MOST_LEVELS = 8
"""Most references that are followed in a schema, in case they form a cycle."""

Schema = Mapping[str, Any]


class Unfit(Exception):
    """A typed line is not a valid value; the message says why."""


@dataclass(frozen=True)
class Value:
    """One argument of a tool."""

    name: str
    schema: Schema
    """The argument's schema, with references resolved and without the `null` of optional types."""
    is_required: bool

    @property
    def choices(self) -> list[Any]:
        """The allowed values; empty if the schema does not list them."""
        if "const" in self.schema:
            return [self.schema["const"]]
        return list(self.schema.get("enum", ()))

    @property
    def is_text(self) -> bool:
        """Whether the typed line is the value, without parsing."""
        return self.schema.get("type") == "string" and not self.choices

    @property
    def description(self) -> str:
        """The description from the tool's schema."""
        return str(self.schema.get("description") or "")

    @property
    def hint(self) -> str:
        """A few words on the type, the bounds and the default."""
        hints = [_kind(self.schema)] if not self.choices else ["one of these"]
        hints += _bounds(self.schema)
        if not self.is_required:
            default = self.schema.get("default")
            hints.append("optional" if default is None else f"default {json.dumps(default, ensure_ascii=False)}")
        return ", ".join(hints)

    def parse(self, line: str) -> Any:
        """Parse a typed line.

        Raises:
            Unfit: the line is not a valid value.
        """
        if self.choices:
            return self._chosen(line.strip())
        value = _parsed(self.schema.get("type"), line)
        _check(self.schema, value)
        return value

    def _chosen(self, line: str) -> Any:
        choices = self.choices
        for choice in choices:
            if line == choice or line == json.dumps(choice, ensure_ascii=False):
                return choice
        if line.isdecimal() and 1 <= int(line) <= len(choices):
            return choices[int(line) - 1]
        raise Unfit(f"{line!r} is none of them: type one, or its number from 1 to {len(choices)}")


def values_of(schema: Schema) -> list[Value]:
    """The arguments of a tool, in the order of its schema."""
    properties = cast(dict[str, Any], schema.get("properties") or {})
    required = set(cast(list[str], schema.get("required") or ()))
    return [Value(name, _resolved(inner, schema), name in required) for name, inner in properties.items()]


def _resolved(schema: Any, root: Schema) -> Schema:
    """A schema with references resolved, and without the `null` of optional types."""
    found: dict[str, Any] = dict(cast(Schema, schema)) if isinstance(schema, Mapping) else {}
    for _ in range(_MOST_LEVELS):
        inner = _referred(found, root) or _only_variant(found)
        if inner is None:
            break
        outer = {key: value for key, value in found.items() if key not in ("$ref", "anyOf", "oneOf", "allOf")}
        found = {**inner, **outer}
    kind = found.get("type")
    if isinstance(kind, list):
        kinds = [name for name in cast(list[str], kind) if name != "null"]
        found["type"] = kinds[0] if len(kinds) == 1 else None
    return found


def _referred(schema: Schema, root: Schema) -> Schema | None:
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    place: Any = root
    for step in reference.removeprefix("#/").split("/"):
        place = cast(Schema, place).get(step.replace("~1", "/").replace("~0", "~")) if isinstance(place, dict) else None
    return cast(Schema, place) if isinstance(place, dict) else None


def _only_variant(schema: Schema) -> Schema | None:
    """The only variant of a union besides `null`; None if there are several."""
    for key in ("anyOf", "oneOf", "allOf"):
        variants = cast(list[Schema], schema.get(key) or ())
        open_ones = [variant for variant in variants if isinstance(variant, dict) and variant.get("type") != "null"]
        if len(open_ones) == 1:
            return open_ones[0]
    return None


def _kind(schema: Schema) -> str:
    kind = schema.get("type")
    if kind == "array":
        inner = schema.get("items")
        name = cast(Schema, inner).get("type") if isinstance(inner, dict) else None
        return f"JSON array of {name}s" if isinstance(name, str) else "JSON array"
    if kind == "object":
        names = ", ".join(cast(Schema, schema.get("properties") or {}))
        return f"JSON object with {names}" if names else "JSON object"
    return _WORDS.get(str(kind), "JSON")


def _bounds(schema: Schema) -> list[str]:
    words = {
        "minimum": "at least {}",
        "exclusiveMinimum": "more than {}",
        "maximum": "at most {}",
        "exclusiveMaximum": "less than {}",
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
        "pattern": "like {}",
        "format": "{}",
    }
    return [text.format(schema[key]) for key, text in words.items() if key in schema]


def _parsed(kind: object, line: str) -> Any:
    """Parse a line as a value of a JSON type."""
    if kind == "string":
        return "" if line == EMPTY else line
    typed = line.strip()
    if kind == "boolean":
        if typed.lower() not in _YES | _NO:
            raise Unfit(f"{typed!r} is neither yes nor no")
        return typed.lower() in _YES
    try:
        value: Any = json.loads(typed, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        if kind in ("integer", "number"):
            raise Unfit(f"{typed!r} is no {_WORDS[str(kind)]}") from None
        raise Unfit(f"that is no JSON: {error}") from None
    if not _is_a(kind, value):
        raise Unfit(f"{typed!r:.60} is no {_kind({'type': kind})}")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not in JSON")


def _is_a(kind: object, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "integer":
            return is_number and (isinstance(value, int) or value.is_integer())
        case "number":
            return is_number
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "null":
            return value is None
        case _:
            return True


def _check(schema: Schema, value: Any) -> None:
    """Check a value's bounds and length; the environment checks everything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        fits = (low is None or value >= low) and (high is None or value <= high)
        if not fits or (above is not None and value <= above) or (below is not None and value >= below):
            raise Unfit(f"{value} is out of bounds: {', '.join(_bounds(schema))}")
    if isinstance(value, str):
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if len(value) < least or (most is not None and len(value) > most):
            raise Unfit(f"it has {len(value)} characters: {', '.join(_bounds(schema))}")
