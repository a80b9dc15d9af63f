"""Runs in the foreign process: the operations of an OpenAPI document as tools, and calls of them as HTTP requests."""

# pyright: basic

import json
import re
from typing import Any
from urllib.parse import quote, urlencode

_METHODS = ("get", "post", "put", "patch", "delete")
_HUBS = frozenset({"get_task", "submit", "reply", "listen"})
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST, _DEEPEST = 64, 8


class Operation:
    """One operation: its tool, and where each argument goes."""

    def __init__(self, path: str, method: str, about: "dict[str, Any]", document: "dict[str, Any]") -> None:
        self.path, self.method = path, method.upper()
        self.operation_id = str(about.get("operationId") or f"{method}_{path}")
        self.description = "\n\n".join(str(about[key]) for key in ("summary", "description") if about.get(key))
        self.properties: dict[str, Any] = {}
        self.required: list[str] = []
        self.places: dict[str, set[str]] = {"path": set(), "query": set(), "body": set()}
        self.has_whole_body = False
        for each in about.get("parameters", ()):
            if each.get("in") in ("path", "query"):
                schema = _inlined(each.get("schema", {}), document)
                words = {"description": each["description"]} if each.get("description") else {}
                self._take(each["in"], each["name"], {**schema, **words}, bool(each.get("required")))
        content = (about.get("requestBody") or {}).get("content", {})
        if "application/json" in content:
            self._take_body(_inlined(content["application/json"].get("schema", {}), document))

    def _take_body(self, schema: "dict[str, Any]") -> None:
        if not isinstance(schema.get("properties"), dict):
            self.has_whole_body = True
            self._take("body", "body", schema, True)
            return
        for name, each in schema["properties"].items():
            self._take("body", name, each, name in schema.get("required", ()))

    def _take(self, place: str, name: str, schema: "dict[str, Any]", is_required: bool) -> None:
        self.places[place].add(name)
        self.properties.setdefault(name, schema)
        if is_required and name not in self.required:
            self.required.append(name)

    def request(self, given: "dict[str, Any]") -> "tuple[str, str, bytes]":
        """The path, the query and the body of a call with arguments."""
        path = self.path
        for name in self.places["path"]:
            path = path.replace("{" + name + "}", quote(_text(given.get(name, "")), safe=""))
        asked: list[tuple[str, str]] = []
        for name in sorted(self.places["query"]):
            value = given.get(name)
            several = value if isinstance(value, list) else [value]
            asked.extend((name, _text(each)) for each in several if each is not None)
        if not self.places["body"]:
            return path, urlencode(asked), b""
        body = {name: given[name] for name in self.places["body"] if name in given}
        return path, urlencode(asked), json.dumps(body.get("body") if self.has_whole_body else body).encode()


def operations_of(document: "dict[str, Any]") -> "dict[str, Operation]":
    """The operations of an OpenAPI document by tool name.

    A tool name has only characters that MCP clients accept, and is none of the hub's own tool names.
    """
    found: dict[str, Operation] = {}
    for path, methods in document.get("paths", {}).items():
        for method in _METHODS:
            if method in methods:
                made = Operation(path, method, methods[method], document)
                plain = _UNFIT.sub("_", made.operation_id)[:_LONGEST] or "_"
                name, count = plain, 1
                while name in found or name in _HUBS:
                    count += 1
                    name = f"{plain[: _LONGEST - 5]}_{count}"
                found[name] = made
    return found


def tools_of(operations: "dict[str, Operation]") -> "list[dict[str, Any]]":
    """The tools, as an agent sees them, for some operations."""
    return [
        {
            "name": name,
            "description": each.description,
            "schema": {"type": "object", "properties": each.properties, "required": each.required},
        }
        for name, each in operations.items()
    ]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _inlined(schema: Any, document: "dict[str, Any]", depth: int = 0) -> Any:
    """Return a schema with its references resolved; beyond a depth limit any value is allowed."""
    if depth > _DEEPEST:
        return {}
    if isinstance(schema, list):
        return [_inlined(each, document, depth + 1) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return _inlined(document.get("components", {}).get("schemas", {}).get(name, {}), document, depth + 1)
    return {key: _inlined(value, document, depth + 1) for key, value in schema.items()}
