"""`@tool`: makes an MCP tool of an environment's method, and lets its calls report progress."""

import base64
import inspect
import math
import re
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal, TypeVar, cast, get_args, get_type_hints, overload

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
    Tool,
)
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, from_json, to_json

from rollouthub.errors import ToolError
from rollouthub.event_loop import call_hook, is_crowded
from rollouthub.messages import Media, Message, Text, media_of

Method = TypeVar("Method", bound=Callable[..., Any])

_MARK = "__rollouthub_tool__"
_SHOWN = (
    "The task shows {count} of pictures, sounds or files, which belong to it. The tool get_task gives all of it, "
    "and the resources that are listed are the same."
)
LONG_TEXT = 64 * 1024
"""Characters from which a text argument skips the check through JSON."""
MOST_LEVELS = 100
"""Most levels of lists and objects in arguments that are forwarded: what programs cannot write or read is the agent's
error, and not the environment's fault.
"""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BLOCKS = get_args(ContentBlock)


@dataclass(frozen=True)
class ToolMark:
    """The arguments of `@tool`."""

    name: str | None
    seats: tuple[str, ...] | None


@overload
def tool(method: Method, /) -> Method: ...
@overload
def tool(*, name: str | None = None, seats: tuple[str, ...] | None = None) -> Callable[[Method], Method]: ...
def tool(
    method: Method | None = None, /, *, name: str | None = None, seats: tuple[str, ...] | None = None
) -> Method | Callable[[Method], Method]:
    """Offer a method to the agent as an MCP tool: `async def`, or plain `def`, which runs in a worker thread.

    The signature becomes a strict JSON schema, the docstring its description; an `Args:` section describes arguments.
    `seats` limits the tool to those seats. Raise `ToolError(text)` to speak to the model.
    """

    def mark(function: Method) -> Method:
        setattr(function, _MARK, ToolMark(name, seats))
        return function

    return mark if method is None else mark(method)


@dataclass(frozen=True)
class ToolSpec:
    """One tool of an environment class: its MCP definition, and the method that runs it."""

    definition: Tool
    method: str
    arguments: type[BaseModel]
    """A model whose fields are the tool's parameters, by alias."""
    seats: tuple[str, ...] | None
    texts: frozenset[str] = frozenset()
    """The parameters that accept any text."""

    def parse(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Check arguments strictly, nested ones too: no coercion, no unknown names (except in a `dict`).

        Raises:
            ToolError: tells the model which argument is wrong.
        """
        long: dict[str, Any] = {}
        for name in self.texts:
            if name in arguments and _is_long(arguments[name]):
                long[name] = arguments[name]
        if long:  # megabytes through JSON and back would hold up the loop, and tell nothing
            arguments = {**arguments, **dict.fromkeys(long, "")}
        try:
            # Through JSON, so that strictness means JSON's types (an array is a tuple, a string is a date).
            # Both said here, not in the model's configuration, which its nested models would not inherit.
            checked = self.arguments.model_validate_json(to_json(arguments), strict=True, extra="forbid")
        except ValidationError as error:
            raise ToolError(self._explain(error)) from None
        except PydanticSerializationError as error:  # lone surrogates, endless nesting
            raise ToolError(f"the arguments are not JSON: {error}") from None
        names, values = self._names, vars(checked)
        return {names[field]: values[field] for field in checked.model_fields_set} | long

    @cached_property
    def _names(self) -> dict[str, str]:
        """Field of the model → parameter."""
        return {name: field.alias or name for name, field in self.arguments.model_fields.items()}

    def call(self, environment: Any, arguments: dict[str, Any]) -> Awaitable[Any]:
        """Run the tool with parsed arguments."""
        return call_hook(getattr(environment, self.method), **arguments)

    def _explain(self, error: ValidationError) -> str:
        known = ", ".join(self.definition.input_schema["properties"]) or "none"
        lines: list[str] = []
        for problem in error.errors(include_url=False, include_context=False, include_input=False):
            place = ".".join(str(step) for step in problem["loc"])
            if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
                lines.append(f"unknown argument {place!r}; {self.definition.name} takes: {known}")
            elif problem["type"] == "missing":
                lines.append(f"argument {place!r} is missing")
            else:
                lines.append(f"argument {place!r}: {problem['msg']}")
        return "\n".join(lines)


@dataclass(frozen=True)
class ForwardedTool:
    """A tool known only at run time, whose calls go to the environment's `call_tool`."""

    definition: Tool
    problems: Callable[[dict[str, Any]], list[str]] | None = None
    """Lists what is wrong with arguments by the tool's schema; None if the program that runs the tool checks them."""
    seats: tuple[str, ...] | None = None

    def parse(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments, unchanged.

        Raises:
            ToolError: tells the model which argument is wrong.
        """
        if _is_deeper(arguments, MOST_LEVELS):
            raise ToolError(f"the arguments are nested too deeply: more than {MOST_LEVELS} levels")
        if self.problems is not None and (problems := self.problems(arguments)):
            raise ToolError("\n".join(problems))
        return arguments

    def call(self, environment: Any, arguments: dict[str, Any]) -> Awaitable[Any]:
        """Run the tool."""
        return call_hook(environment.call_tool, self.definition.name, arguments)


_MOST_PROBLEMS = 8


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether lists and objects are nested deeper than `levels`; takes time proportional to their size."""
    level = [value]
    for _ in range(levels + 1):
        level = [
            inner
            for each in level
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def checked_tool(definition: Tool) -> ForwardedTool:
    """A tool known only at run time whose arguments are checked against its own schema.

    Raises:
        TypeError: the schema is not valid.
    """
    from jsonschema import Draft202012Validator  # 0.1 s to import: for environments that have such tools alone
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(definition.input_schema)  # pyright: ignore[reportUnknownMemberType]
    except SchemaError as error:
        raise TypeError(f"the input schema of tool {definition.name!r} is not valid: {error.message}") from error
    validator = Draft202012Validator(definition.input_schema)

    def problems(arguments: dict[str, Any]) -> list[str]:
        found = islice(validator.iter_errors(arguments), _MOST_PROBLEMS)  # pyright: ignore[reportUnknownMemberType]
        return [f"argument {'.'.join(map(str, error.path)) or 'object'!r}: {error.message}"[:500] for error in found]

    return ForwardedTool(definition, problems)


def tool_specs(environment: type) -> tuple[ToolSpec, ...]:
    """The tools of an environment class, in order of definition, base classes first."""
    found: dict[str, Callable[..., Any]] = {}
    for cls in reversed(environment.__mro__):
        for attribute, value in vars(cls).items():
            if hasattr(value, _MARK):
                found[attribute] = value
            elif attribute in found:
                del found[attribute]
    specs = tuple(_spec(attribute, function) for attribute, function in found.items())
    names = [spec.definition.name for spec in specs]
    if len(set(names)) != len(names):
        raise TypeError(f"{environment.__qualname__} offers two tools of one name: {names}")
    return specs


def _spec(attribute: str, function: Callable[..., Any]) -> ToolSpec:
    mark: ToolMark = getattr(function, _MARK)
    name = mark.name or attribute
    if not _NAME.fullmatch(name):
        raise TypeError(f"tool name {name!r} is not 1 to 64 of A-Z a-z 0-9 _ -")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"tool {function.__qualname__} must return its result; it yields")
    description, described = _docstring(function)
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.name not in hints:
            raise TypeError(f"tool {function.__qualname__}: parameter {parameter.name!r} needs a name and a type")
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        if isinstance(default, FieldInfo):
            raise TypeError(
                f"tool {function.__qualname__}: write {parameter.name!r} as Annotated[type, Field(…)] = default, "
                "so that the method itself sees the default"
            )
        note = described.get(parameter.name)
        field: Any = (
            Field(default, alias=parameter.name, description=note) if note else Field(default, alias=parameter.name)
        )
        fields[f"argument_{parameter.name}"] = (hints[parameter.name], field)
    return tool_spec(name, description, attribute, fields, mark.seats)


def tool_spec(
    name: str, description: str, method: str, fields: dict[str, Any], seats: tuple[str, ...] | None
) -> ToolSpec:
    """A tool with these pydantic fields as parameters; a field's alias is the argument's name, which pydantic may
    use itself.
    """
    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    arguments: type[BaseModel] = create_model(f"{name}_arguments", __config__=config, **fields)
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    for field in schema.setdefault("properties", {}).values():
        field.pop("title", None)
    for nested in schema.get("$defs", {}).values():
        if "properties" in nested:
            nested["additionalProperties"] = False
    texts = {field.alias or key for key, field in arguments.model_fields.items() if _is_any_text(field)}
    definition = Tool(name=name, description=description, input_schema=schema)
    return ToolSpec(definition, method, arguments, seats, frozenset(texts))


def _is_any_text(field: FieldInfo) -> bool:
    annotation: Any = field.annotation
    return annotation in (str, str | None) and not field.metadata


def _is_long(value: object) -> bool:
    """Whether the value is text of at least `LONG_TEXT` characters that JSON can hold."""
    if not isinstance(value, str) or len(value) < LONG_TEXT:
        return False
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return True


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Split a docstring into its description and its `Args:` section."""
    text = inspect.getdoc(function) or ""
    head, _, section = text.partition("\nArgs:\n")
    described: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if line and not line.startswith(" "):
            break
        if match := re.match(r" {2,4}(\w+)(?: \([^)]*\))?: (.*)", line):
            name = match[1]
            described[name] = match[2].strip()
        elif name and line.strip():
            described[name] += " " + line.strip()
    return head.strip(), described


def text_result(text: str, *, is_error: bool = False) -> CallToolResult:
    """A tool result of one text."""
    return CallToolResult(content=[TextContent(text=text)], is_error=is_error)


def shown_result(messages: Sequence[Message]) -> CallToolResult:
    """Messages as a tool result: their text, and their media in place."""
    if not media_of(messages):
        return text_result("\n\n".join(message.text for message in messages))
    blocks: list[ContentBlock] = []
    for message in messages:
        parts = (Text(text=message.content),) if isinstance(message.content, str) else message.content
        blocks += (TextContent(text=part.text) if isinstance(part, Text) else media_block(part) for part in parts)
    return CallToolResult(content=blocks)


def told_task(messages: Sequence[Message]) -> str:
    """A task as text alone, for readers of text only: says how many media it has, and how to get them."""
    words = "\n\n".join(message.text for message in messages)
    count = len(media_of(messages))
    return f"{words}\n\n{_SHOWN.format(count=count)}" if count else words


def media_block(part: Media) -> ContentBlock:
    """Media as an MCP content block.

    Raises:
        ValueError: the media have no bytes.
    """
    content = part.read()
    if content is None:
        raise ValueError(f"media {part.digest} came without its bytes")
    data = base64.b64encode(content).decode()
    if part.mime_type.startswith("image/"):
        return ImageContent(data=data, mime_type=part.mime_type)
    if part.mime_type.startswith("audio/"):
        return AudioContent(data=data, mime_type=part.mime_type)
    return EmbeddedResource(resource=BlobResourceContents(uri=media_uri(part), mime_type=part.mime_type, blob=data))


def media_uri(part: Media) -> str:
    """The URI of media as a resource of its seat."""
    return f"media:{part.digest.removeprefix('sha256:')}"


def as_result(value: object) -> CallToolResult:
    """A tool's return value as an MCP result: text, content blocks and media unchanged, anything else as JSON.

    An object is also structured content, unless it has more than `MOST_VALUES` values. The result shares nothing with
    the tool's own state.
    """
    if isinstance(value, str):
        return CallToolResult(content=[TextContent(text=_writable(value))])
    if isinstance(value, CallToolResult):
        return value
    if value is None:
        return CallToolResult(content=[])
    blocks: list[object] = [value] if not isinstance(value, list | tuple) else [*cast(list[object], value)]
    blocks = [media_block(block) if isinstance(block, Media) else block for block in blocks]
    if blocks and all(isinstance(block, _BLOCKS) for block in blocks):
        return CallToolResult(content=cast(list[ContentBlock], blocks))
    text = to_json(value, inf_nan_mode="strings")
    structured = from_json(text) if text.startswith(b"{") and not is_crowded(text) else None
    return CallToolResult(content=[TextContent(text=text.decode())], structured_content=structured)


_ENDED = "rollouthub/episode-ended"


def ended(result: CallToolResult) -> CallToolResult:
    """The result, marked as the episode's last, so that a server that passes it on knows that the episode is sealed."""
    return result.model_copy(update={"meta": {**(result.meta or {}), _ENDED: True}})


def is_last(result: CallToolResult) -> bool:
    """Whether the call ended the episode."""
    return result.meta is not None and result.meta.get(_ENDED) is True


TurnMark = Literal["waiting", "had", "come", "over"]
"""State of a seat's turn, where no new message is shown: not yet, shown before, come now, or no further turn."""
_TURN = "rollouthub/turn"


def turn_result(text: str, mark: TurnMark) -> CallToolResult:
    """A tool result that tells a seat the state of its turn."""
    return text_result(text).model_copy(update={"meta": {_TURN: mark}})


def turn_mark(result: CallToolResult) -> TurnMark | None:
    """The state of a seat's turn in a result; None if the result is any other."""
    mark: object = None if result.meta is None else result.meta.get(_TURN)
    return mark if mark in ("waiting", "had", "come", "over") else None


def _writable(text: str) -> str:
    """The text as UTF-8 can hold it: lone surrogates (a program's undecodable bytes) become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


ProgressListener = Callable[[float, float | None, str | None], Awaitable[None]]
"""Called with the amount done, the total if known, and a sentence if any."""

CALLING_SEAT: ContextVar[str] = ContextVar("rollouthub.tools.seat")
"""The seat whose tool call is running; unset if the environment has only one seat."""
_listener: ContextVar[ProgressListener | None] = ContextVar("rollouthub.tools", default=None)


@contextmanager
def heard_by(listener: ProgressListener) -> Generator[None]:
    """Pass the progress that tool calls inside the context report to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


async def report_progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Report the progress of the current tool call; does nothing if no one listens.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    if not math.isfinite(done) or not (total is None or math.isfinite(total)):
        raise ValueError(f"progress is told in numbers, not as {done!r} of {total!r}")
    listener = _listener.get()
    if listener is not None:
        await listener(done, total, message)
