"""Rows of NeMo Gym as tasks, and the requests to its verifiers."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from mcp_types import Tool
from pydantic import JsonValue

from rollouthub.errors import DataError
from rollouthub.messages import Message
from rollouthub.models.response_items import input_items
from rollouthub.models.responses_rollout import read_items, row_id
from rollouthub.task import BadRow, Public, Secret, Task
from rollouthub_servers.foreign.tool_names import HUB_TOOLS
from rollouthub_servers.nemo_gym.gym_client import CONTROL_ROUTES

RESERVED = CONTROL_ROUTES | HUB_TOOLS
NOT_ASKED = frozenset({"response", "reward", "agent_ref", "_ng_task_index", "_ng_rollout_index", "_ng_rollout_id"})
"""Keys of a recorded row that are not part of the task."""
_COUNTED = {
    "input_tokens_details": ("cached_tokens", "cache_write_tokens"),
    "output_tokens_details": ("reasoning_tokens",),
}
"""What a response's usage has to count, and recorded ones leave out."""
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class _Params(msgspec.Struct):
    """The part of a row's request that identifies its task."""

    input: Any = None


class _RowOutline(msgspec.Struct):
    """The part of a row that identifies its task."""

    responses_create_params: _Params | None = None


_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_outline = msgspec.json.Decoder(_RowOutline).decode


class GymRow(Secret):
    """The whole row, including its answers; the agent sees only the prompt and the tools."""

    row: dict[str, JsonValue] = {}


def read_rows(file: Path, split: str) -> Iterator[Task[Public, Secret] | BadRow]:
    """The rows of a file as tasks. The id is made of the row's input; rows with equal inputs get a number, too.

    A recorded rollout thus finds its task by its input, unless several rows have that input.
    """
    asked = Counter(name for name in map(_name_in, _lines(file)) if name is not None)
    seen: Counter[str] = Counter()
    for number, line in enumerate(_lines(file), start=1):
        if not line.strip():
            continue
        try:
            name = _name_in(line)
            if name is None:
                raise ValueError("it has no responses_create_params.input, so there is nothing to ask")
            seen[name] += 1
            yield _task(line, split, f"{name}.{seen[name]}" if asked[name] > 1 else name)
        except (ValueError, msgspec.DecodeError, RecursionError) as error:
            yield BadRow(DataError(str(error)[:300], file.name, number))


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as lines:
        yield from lines


def _name_in(line: bytes) -> str | None:
    """The id of a row, made of its input; None if it has none."""
    try:
        params = _decode_outline(line).responses_create_params
        return None if params is None or params.input is None else row_id(params.input)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None


def _task(line: bytes, split: str, name: str) -> Task[Public, Secret]:
    row = _decode(line)
    asked = cast(dict[str, Any], row["responses_create_params"])
    messages = read_items(asked["input"])
    if isinstance(instructions := asked.get("instructions"), str) and instructions:
        messages = (Message(role="system", content=instructions), *messages)
    tools_of_row(row)
    kept = {key: value for key, value in row.items() if key not in NOT_ASKED}
    return Task(Public(id=name, prompt=messages, source=split), GymRow(row=kept))


def tools_of_row(row: Mapping[str, Any]) -> list[Tool]:
    """The tools in a row.

    Raises:
        ValueError: one is not a function, or its name is not allowed.
    """
    found: list[Tool] = []
    for given in cast(Sequence[object], row["responses_create_params"].get("tools") or ()):
        each = cast(dict[str, Any], given) if isinstance(given, dict) else dict[str, Any]()
        name = each.get("name")
        if not isinstance(name, str) or each.get("type", "function") != "function":
            raise ValueError(f"a tool of the row is no function: {given!r:.100}")
        if not _TOOL_NAME.fullmatch(name) or name in RESERVED:
            raise ValueError(f"a tool of the row is called {name[:80]!r}, which no tool may be called")
        if name in [tool.name for tool in found]:
            raise ValueError(f"the row has two tools called {name!r}")
        schema: dict[str, Any] = each.get("parameters") or {"type": "object", "properties": {}}
        found.append(Tool(name=name, description=each.get("description"), input_schema=schema))
    return found


def mcp_tools(listed: Any) -> list[Tool]:
    """The tools that a server lists over MCP, without those of the hub's or of the control side."""
    found = cast(dict[str, Any], listed).get("tools") if isinstance(listed, dict) else None
    tools: list[Tool] = []
    for given in cast(list[Any], found) if isinstance(found, list) else ():
        each = cast(dict[str, Any], given) if isinstance(given, dict) else dict[str, Any]()
        name = str(each.get("name"))
        if _TOOL_NAME.fullmatch(name) and name not in RESERVED:
            schema: dict[str, Any] = each.get("inputSchema") or {"type": "object", "properties": {}}
            tools.append(Tool(name=name, description=each.get("description"), input_schema=schema))
    return tools


def seed_request(row: Mapping[str, Any]) -> dict[str, Any]:
    """The request that begins a session: the whole row."""
    return dict(row)


def response_of(transcript: Sequence[Message], opening: int, params: Mapping[str, Any]) -> dict[str, Any]:
    """The messages after the first `opening` ones in the form of a response."""
    return {"output": input_items(transcript[opening:]), "model": params.get("model") or "policy"}


def verify_request(
    row: Mapping[str, Any], response: Mapping[str, Any], asked: frozenset[str], answered: frozenset[str]
) -> dict[str, Any]:
    """The request to a verifier, in the form that its models accept.

    `asked` and `answered` are the declared keys of its request and response: keys of the response alone are left out,
    as the response would otherwise have them twice.
    """
    kept = {key: value for key, value in row.items() if key not in NOT_ASKED and (key in asked or key not in answered)}
    params = cast(dict[str, Any], _without_nulls(row["responses_create_params"]))
    return {**kept, "responses_create_params": params, "response": whole_response(response, params)}


def whole_response(response: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The response, completed with the keys that its model requires."""
    kept = cast(dict[str, Any], _without_nulls(dict(response)))
    if isinstance(kept.get("usage"), dict):
        usage = cast(dict[str, Any], kept["usage"])
        if "input_tokens" not in usage:  # as chat completions count
            del kept["usage"]
        for part, names in _COUNTED.items():
            if isinstance(usage.get(part), dict):
                usage[part] = dict.fromkeys(names, 0) | usage[part]
    filled = {
        "id": "resp-rollouthub",
        "created_at": 0.0,
        "model": "policy",
        "object": "response",
        "parallel_tool_calls": True,
        "tool_choice": params.get("tool_choice", "auto"),
        "tools": params.get("tools", []),
    }
    return {**filled, **kept}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in cast(dict[str, Any], value).items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in cast(list[Any], value)]
    return value
