"""A small MCP server in plain Python: a shopping list in a file. A server in any other language works as well."""

import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(sys.argv[1])
COUNT = {"type": "integer", "minimum": 0, "description": "How many; 0 takes it off the list."}
PUT: dict[str, Any] = {
    "name": "put",
    "description": "Put an item on the shopping list.",
    "inputSchema": {
        "type": "object",
        "properties": {"item": {"type": "string"}, "count": COUNT},
        "required": ["item", "count"],
        "additionalProperties": False,
    },
}
SHOW: dict[str, Any] = {"name": "show", "description": "Show the shopping list.", "inputSchema": {"type": "object"}}


def call(name: str, arguments: dict[str, Any]) -> str:
    """Run a tool; returns its text."""
    items: dict[str, int] = json.loads(FILE.read_text()) if FILE.exists() else {}
    if name == "put":
        items = {**items, arguments["item"]: arguments["count"]}
        items = {item: count for item, count in items.items() if count}
        FILE.write_text(json.dumps(items))
    return "\n".join(f"{count} {item}" for item, count in items.items()) or "The list is empty."


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None for an unknown method."""
    match method:
        case "initialize":
            info = {"name": "shopping", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [PUT, SHOW]}
        case "tools/call":
            return {"content": [{"type": "text", "text": call(params["name"], params.get("arguments", {}))}]}
        case _:
            return None


for line in sys.stdin:
    request: dict[str, Any] = json.loads(line)
    if "id" not in request:
        continue
    result = answer(request["method"], request.get("params", {}))
    outcome = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"]} | outcome) + "\n")
    sys.stdout.flush()
