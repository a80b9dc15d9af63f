"""The tools of a server when the environment was prepared: which are offered, and how changes are detected."""

import difflib
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from mcp_types import Tool, ToolAnnotations
from pydantic_core import to_json

from rollouthub.errors import ConfigError, TaskError, ToolError
from rollouthub.plugins.manifest import ServerSection

RESERVED = frozenset({"get_task", "submit", "reply"})
MAX_TOOLS = 512
MAX_TOOL_BYTES = 100_000
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_NAME_LENGTH = 64
_SHOWN_PROBLEMS = 5


@dataclass(frozen=True)
class PinnedTool:
    """A tool as it is offered, and how its arguments are checked."""

    definition: Tool
    server_name: str
    validator: Any
    """A compiled JSON Schema validator; the library has no type stubs."""

    def check(self, arguments: dict[str, Any]) -> None:
        """Check arguments against the tool's own schema.

        Raises:
            ToolError: an argument is wrong; the message is for the model.
            TaskError: the schema itself is invalid.
        """
        from jsonschema import ValidationError

        problems: list[str] = []
        try:
            for error in self.validator.iter_errors(arguments):
                assert isinstance(error, ValidationError)
                place = ".".join(str(step) for step in cast(Sequence[object], error.absolute_path))
                problems.append(f"argument {place!r}: {error.message:.300}" if place else f"{error.message:.300}")
                if len(problems) >= _SHOWN_PROBLEMS:
                    break
        except RecursionError:
            raise ToolError("the arguments are nested too deeply") from None
        except Exception as error:  # an unresolvable $ref, a broken pattern
            raise TaskError(
                f"the schema of tool {self.server_name!r} does not hold: {error}", retryable=False
            ) from error
        if problems:
            raise ToolError("\n".join(problems))


@dataclass(frozen=True)
class PinnedTools:
    """A server's tools by offered name, and the digest of each by its name on the server."""

    offered: dict[str, PinnedTool]
    digests: dict[str, str]

    def difference(self, tools: Sequence[Tool], workdir: str) -> str | None:
        """How a later listing differs; None if it does not."""
        now = {tool.name: _digest(clean(tool, workdir)) for tool in tools}
        parts = [
            f"{verb} {', '.join(map(repr, names[:10]))}"
            for verb, names in (
                ("added", sorted(now.keys() - self.digests.keys())),
                ("removed", sorted(self.digests.keys() - now.keys())),
                ("changed", sorted(n for n in now.keys() & self.digests.keys() if now[n] != self.digests[n])),
            )
            if names
        ]
        return "; ".join(parts) or None


def pin(tools: Sequence[Tool], server: ServerSection, workdir: str) -> PinnedTools:
    """Pin the listed tools.

    Raises:
        ConfigError: a name, a schema, or the manifest's choice of tools is invalid.
    """
    if len(tools) > MAX_TOOLS:
        raise ConfigError(f"the server lists {len(tools)} tools; {MAX_TOOLS} is the most")
    by_name = {tool.name: clean(tool, workdir) for tool in tools}
    if len(by_name) != len(tools):
        raise ConfigError("the server lists two tools of one name")
    for key, names in (("tools", server.tools or ()), ("hidden_tools", server.hidden_tools)):
        for name in names:
            if name not in by_name:
                close = difflib.get_close_matches(name, by_name, n=1, cutoff=0.5)
                meant = f"; did you mean {close[0]!r}?" if close else f"; it has: {', '.join(by_name) or 'none'}"
                raise ConfigError(f"server.{key}: the server has no tool {name!r}{meant}")
    offered: dict[str, PinnedTool] = {}
    for name, definition in by_name.items():
        if (server.tools is not None and name not in server.tools) or name in server.hidden_tools:
            continue
        pinned = _pin_one(definition)
        if (other := offered.get(pinned.definition.name)) is not None:
            raise ConfigError(
                f"the server's tools {other.server_name!r} and {name!r} would both be offered as "
                f"{pinned.definition.name!r}; hide one with server.hidden_tools"
            )
        offered[pinned.definition.name] = pinned
    return PinnedTools(offered, {name: _digest(tool) for name, tool in by_name.items()})


def _pin_one(tool: Tool) -> PinnedTool:
    name = model_name(tool.name)
    if name in RESERVED:
        raise ConfigError(
            f"the server's tool {tool.name!r} has the name of a tool of the hub's own; "
            f'hide it with server.hidden_tools = ["{tool.name}"]'
        )
    return pin_as(tool, name)


def model_name(name: str) -> str:
    """A tool's name as model servers take it: A-Z a-z 0-9 _ - and 64 characters, where MCP takes dots and more."""
    return _ODD.sub("_", name)[:_NAME_LENGTH]


def pin_as(tool: Tool, name: str) -> PinnedTool:
    """A server's tool, offered under a name.

    Raises:
        ConfigError: its description is too long, or its schema is invalid.
    """
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry

    elsewhere: Registry[Any] = Registry()

    if not tool.name:
        raise ConfigError("the server lists a tool without a name")
    if len(to_json(tool)) > MAX_TOOL_BYTES:
        raise ConfigError(
            f"the server's tool {tool.name!r} is described in more than {MAX_TOOL_BYTES:,} bytes; hide it"
        )
    kind: Any = cast(Any, validator_for)(tool.input_schema, default=Draft202012Validator)
    try:
        kind.check_schema(tool.input_schema)
    except SchemaError as error:
        raise ConfigError(
            f"the server's tool {tool.name!r} has an input schema that does not hold: {error.message}"
        ) from error
    # An empty registry: a `$ref` to somewhere else is not fetched.
    validator = kind(tool.input_schema, registry=elsewhere)
    return PinnedTool(tool.model_copy(update={"name": name}), tool.name, validator)


def clean(tool: Tool, workdir: str = "") -> Tool:
    """The parts of a tool that a model sees: no `_meta`, icons, output schema and the like, and no episode's path."""
    hints = tool.annotations
    annotations = hints and ToolAnnotations(
        read_only_hint=hints.read_only_hint,
        destructive_hint=hints.destructive_hint,
        idempotent_hint=hints.idempotent_hint,
        open_world_hint=hints.open_world_hint,
    )
    shown = Tool(name=tool.name, description=tool.description, input_schema=tool.input_schema, annotations=annotations)
    text = shown.model_dump_json(by_alias=True, exclude_none=True)
    return Tool.model_validate_json(text.replace(workdir, "{workdir}")) if workdir and workdir in text else shown


def _digest(tool: Tool) -> str:
    return hashlib.sha256(to_json(tool.model_dump(mode="json", by_alias=True, exclude_none=True))).hexdigest()
