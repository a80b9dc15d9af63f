"""The answers of mock models: pure functions from a conversation to an assistant message."""

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
from mcp_types import Tool
from msgspec import Struct

from rollouthub.errors import ConfigError, ModelError
from rollouthub.generation import ModelRequest
from rollouthub.messages import Message, ToolRequest
from rollouthub.models.mock.mock_name import MockName

Mind = Callable[[ModelRequest], Message]

SUBMIT = "submit"
"""The tool by which an agent submits its answer."""

_EXPRESSION = re.compile(r"[\d., ()+*/^%-]+")
_OPERATION = re.compile(r"\d[\d. )]*[+*/^%-][ (+-]*\d")
_LONGEST = 1_000
"""Most characters of an expression."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def make_mind(name: MockName) -> Mind:
    """The function that answers for a mock model of this name.

    Raises:
        ConfigError: its script cannot be read.
    """
    match name.kind:
        case "echo":
            return lambda request: _say(_last_user_text(request))
        case "say":
            return lambda request: _say(name.text)
        case "script":
            return _script(name)
        case kind:
            return lambda request: _solve(name, request, submits=kind == "submitter")


def chance(*what: object) -> float:
    """A pseudo-random number in [0, 1) that depends only on the arguments, on every machine."""
    digest = hashlib.blake2b(repr(what).encode(), digest_size=7).digest()
    return int.from_bytes(digest, "little") / 2**56


def _say(text: str, *requests: ToolRequest) -> Message:
    return Message(role="assistant", content=text, tool_requests=requests)


def _call(request: ModelRequest, place: int, name: str, arguments: str) -> ToolRequest:
    # Unique within the conversation, and the same wherever it is played.
    return ToolRequest(id=f"call-{len(request.messages)}-{place}", name=name, arguments=arguments)


def _last_user_text(request: ModelRequest) -> str:
    for message in reversed(request.messages):
        if message.role == "user":
            return message.text
    return ""


def _solve(name: MockName, request: ModelRequest, *, submits: bool) -> Message:
    """One tool call with arguments from the last user message, then the tool's result as the answer."""
    question = _last_user_text(request)
    results = _results(request.messages)
    tool = next((tool for tool in request.tools if _is_meant(tool, name.tool)), None)
    if tool is not None and not results:
        return _say("", _call(request, 0, tool.name, fill_arguments(tool, question)))
    answer = results[0].text if results else expression(question) or question
    if chance("accuracy", name.seed, request.sampling.seed, question) >= name.accuracy:
        answer = _spoil(answer)
    has_submitted = len(results) > 1
    if submits and not has_submitted and any(tool.name == SUBMIT for tool in request.tools):
        return _say("", _call(request, 0, SUBMIT, msgspec.json.encode({"answer": answer}).decode()))
    return _say(answer)


def _is_meant(tool: Tool, name: str) -> bool:
    """Whether the mock should call a tool: it has this name, possibly after a server's prefix; without a name, any
    tool but `submit`.
    """
    if not name:
        return tool.name != SUBMIT
    return tool.name == name or (tool.name.endswith(name) and not tool.name[-len(name) - 1].isalnum())


def _results(messages: Sequence[Message]) -> list[Message]:
    """The tool results since the last user message."""
    results: list[Message] = []
    for message in reversed(messages):
        if message.role == "user":
            break
        if message.role == "tool":
            results.append(message)
    return results[::-1]


def _spoil(answer: str) -> str:
    """A wrong answer of the same form: its last number plus 1."""
    numbers = list(_NUMBER.finditer(answer))
    if not numbers:
        return "no idea"
    last = numbers[-1]
    number = float(last[0]) + 1 if "." in last[0] else int(last[0]) + 1
    return answer[: last.start()] + str(number) + answer[last.end() :]


def fill_arguments(tool: Tool, text: str) -> str:
    """JSON arguments for a tool's required parameters, taken from a text by the parameters' types."""
    schema = tool.input_schema
    properties = cast(dict[str, dict[str, Any]], schema.get("properties", {}))
    required: list[str] = schema.get("required", [])
    return msgspec.json.encode({name: _argument(properties.get(name, {}), text) for name in required}).decode()


def _argument(schema: dict[str, Any], text: str) -> object:
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "integer":
            found = _NUMBER.search(text)
            return int(float(found[0])) if found else 0
        case "number":
            found = _NUMBER.search(text)
            return float(found[0]) if found else 0.0
        case "boolean":
            return False
        case "array":
            return []
        case "object":
            return {}
        case "null":
            return None
        case _:
            return expression(text) or text


def expression(text: str) -> str:
    """The longest arithmetic expression in a text; empty if there is none."""
    found = (match[0].strip(" .,") for match in _EXPRESSION.finditer(text))
    candidates = [_balanced(piece) for piece in found if len(piece) <= _LONGEST and _OPERATION.search(piece)]
    return max(candidates, key=len, default="")


def _balanced(piece: str) -> str:
    """An expression without unmatched brackets at its ends, which belong to the sentence around it."""
    while piece.count(")") > piece.count("(") and piece.endswith(")"):
        piece = piece[:-1].rstrip()
    while piece.count("(") > piece.count(")") and piece.startswith("("):
        piece = piece[1:].lstrip()
    return piece


class _ScriptCall(Struct, forbid_unknown_fields=True):
    name: str
    arguments: str | dict[str, Any] = {}


class _ScriptTurn(Struct, forbid_unknown_fields=True):
    content: str = ""
    tool_calls: list[_ScriptCall] = []
    reasoning: str | None = None


def _script(name: MockName) -> Mind:
    try:
        turns = msgspec.json.decode(name.file.read_bytes(), type=list[_ScriptTurn])
    except OSError as error:
        raise ConfigError(f"the mock's script {str(name.file)!r} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{name.file} is not a list of turns {{content, tool_calls, reasoning}}: {error}") from None

    def mind(request: ModelRequest) -> Message:
        index = sum(message.role == "assistant" for message in request.messages)
        if index >= len(turns):
            raise ModelError(f"{name.file} has {len(turns)} turns; there is no turn {index + 1}", retryable=False)
        turn = turns[index]
        calls = (_call(request, place, call.name, _written(call)) for place, call in enumerate(turn.tool_calls))
        return Message(role="assistant", content=turn.content, reasoning=turn.reasoning, tool_requests=tuple(calls))

    return mind


def _written(call: _ScriptCall) -> str:
    """A script's arguments as the model's text: text is unchanged, whether it is valid JSON or not."""
    return call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode()
