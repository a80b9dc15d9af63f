"""Enumerates the calls that BFCL's possible answers allow, in the syntax of the row's language.

Runs in BFCL's process. A possible answer gives each argument a list of values; `""` in the list means that the
argument may be left out.
"""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from bfcl_eval.eval_checker.ast_eval.type_convertor.java_type_converter import java_type_converter
from bfcl_eval.eval_checker.ast_eval.type_convertor.js_type_converter import js_type_converter

_ABSENT = object()
_JAVA_ELEMENTS = {"String": "String", "integer": "Integer", "float": "Float", "double": "Double", "long": "Long"}


def calls_of(functions: "list[dict[str, Any]]", truth: "list[dict[str, Any]]", category: str) -> "Iterator[list[Any]]":
    """The possible spellings of all calls of an answer, the simplest first."""
    known = {function["name"]: function for function in functions}
    choices: list[tuple[int, str, list[Any]]] = []
    for index, call in enumerate(truth):
        ((name, values),) = call.items()
        parameters = known[name]["parameters"]
        for argument, possible in values.items():
            kind = parameters["properties"].get(argument, {"type": "string"})
            is_required = argument in parameters.get("required", ())
            choices.append((index, argument, _spellings(kind, possible, is_required, category)))
    for picked in _near_first([each for _, _, each in choices]):
        calls: list[dict[str, dict[str, Any]]] = [{next(iter(call)): {}} for call in truth]
        for (index, argument, _), value in zip(choices, picked, strict=True):
            if value is not _ABSENT:
                next(iter(calls[index].values()))[argument] = value
        yield calls


def _near_first(choices: "list[list[Any]]") -> "Iterator[tuple[Any, ...]]":
    """Combinations of choices: the first of each, then those with one other choice, then all."""
    first = tuple(each[0] for each in choices)
    yield first
    for place, each in enumerate(choices):
        for other in each[1:]:
            yield (*first[:place], other, *first[place + 1 :])
    yield from product(*choices)


def _spellings(kind: "dict[str, Any]", possible: "list[Any]", is_required: bool, category: str) -> "list[Any]":
    found: list[Any] = []
    for value in possible:
        if value == "" and len(possible) > 1:
            continue  # it may be left out
        found += _written(kind, value, category)
    if "" in possible and not is_required:
        found.append(_ABSENT)
    return found or [""]


def _written(kind: "dict[str, Any]", value: Any, category: str) -> "list[Any]":
    value = _plain(kind, value)
    if category.endswith("javascript"):
        return _converting(js_type_converter, kind, value, _javascript(kind, value))
    if category.endswith("java"):
        return _converting(java_type_converter, kind, value, _java(kind, value))
    return [value]


def _plain(kind: "dict[str, Any]", value: Any) -> Any:
    """Replace the lists of possible values that objects in answers have for each key by one value."""
    if isinstance(value, dict) and kind["type"] in ("dict", "HashMap", "any"):
        return _object(value)
    items = kind.get("items", {}).get("type")
    if isinstance(value, list) and items == "dict":
        return [_object(each) if isinstance(each, dict) else each for each in value]
    return value


def _object(value: "dict[str, Any]") -> "dict[str, Any]":
    made: dict[str, Any] = {}
    for key, possible in value.items():
        if not isinstance(possible, list):
            made[key] = possible
            continue
        named = [each for each in possible if each != ""]
        if named:
            made[key] = named[0]
        elif possible and "" not in possible:
            made[key] = possible[0]
    return made


def _converting(convert: Callable[..., Any], kind: "dict[str, Any]", value: Any, texts: "list[str]") -> "list[Any]":
    """The texts, sorted so that those which BFCL's converter reads as the value come first."""

    def reads(text: str) -> bool:
        nested = kind.get("items", {}).get("type")
        try:
            found = convert(text, kind["type"], nested) if nested else convert(text, kind["type"])
        except Exception:
            return False
        return type(found) is type(value) and found == value

    return sorted(dict.fromkeys(texts), key=lambda text: not reads(text))


def _java(kind: "dict[str, Any]", value: Any) -> "list[str]":
    """Possible Java texts of a value, by the declared type."""
    if isinstance(value, str):
        return [value, json.dumps(value)]
    if isinstance(value, dict):
        puts = " ".join(f'put("{key}", {_java_value(each)});' for key, each in value.items())
        return [f"new HashMap<String, Object>() {{{{ {puts} }}}}" if puts else "new HashMap<>()"]
    if isinstance(value, list):
        items = kind.get("items", {}).get("type", "any")
        joined = [", ".join(write(each) for each in value) for write in (_java_value, str, _long, _float)]
        name = _JAVA_ELEMENTS.get(items, "Object")
        made = [f"new ArrayList<{name}>(Arrays.asList({each}))" if value else "new ArrayList<>()" for each in joined]
        return [f"new {name}[]{{{each}}}" for each in joined] + made
    return [_java_value(value), _long(value), _float(value)]


def _java_value(value: Any) -> str:
    return json.dumps(value)


def _long(value: Any) -> str:
    return f"{_java_value(value)}L"


def _float(value: Any) -> str:
    return f"{_java_value(value)}f"


def _javascript(kind: "dict[str, Any]", value: Any) -> "list[str]":
    """Possible JavaScript texts of a value, by the declared type."""
    if isinstance(value, str):
        return [value, json.dumps(value)]
    if isinstance(value, list | dict):
        bare = json.dumps(value).replace('"', "")
        return [json.dumps(value), json.dumps(value).replace('"', "'"), bare]
    return [json.dumps(value), f"{json.dumps(value)}n"]
