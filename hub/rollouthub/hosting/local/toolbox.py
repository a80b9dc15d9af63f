"""The tools of an environment class: its own, and the contract's (`get_task`, `submit`, `reply`, `listen`)."""

import hashlib
from collections.abc import Sequence
from copy import copy
from typing import Any

from mcp_types import Tool
from pydantic import Field
from pydantic_core import to_json

from rollouthub.environment import AnyEnvironment, Environment, EnvironmentConfig
from rollouthub.errors import ToolError
from rollouthub.tools import ForwardedTool, ToolSpec, checked_tool, tool_spec, tool_specs

GET_TASK, SUBMIT, REPLY, LISTEN = "get_task", "submit", "reply", "listen"
LOOP_TOOLS = frozenset({GET_TASK, REPLY, LISTEN})
"""Contract tools that the hub's own agents do not need: they get the conversation and the replies directly."""


_LISTEN = "Wait for your turn, and read what the others have said since the last. Call it before anything else."
_REPLY_IN_TURN = (
    "Say something to the others at your turn, wait for the next, and read what they have said. "
    "Nothing that you say elsewhere is heard."
)

AnyTool = ToolSpec | ForwardedTool


class Toolbox:
    """The tools of each seat of an environment class. Built once per class, shared by its episodes."""

    def __init__(self, environment: AnyEnvironment, config: EnvironmentConfig | None = None) -> None:
        own = tool_specs(environment)
        specs: dict[str, AnyTool] = {spec.definition.name: spec for spec in own}
        for definition in environment.more_tools(environment.config_type() if config is None else config):
            if definition.name in specs:
                raise TypeError(f"{environment.__qualname__} offers two tools named {definition.name!r}")
            checks = environment.checks_arguments
            specs[definition.name] = checked_tool(definition) if checks else ForwardedTool(definition)
        for contract in _contract_tools(environment):
            if contract.definition.name in specs:
                raise TypeError(f"{environment.__qualname__}: {contract.definition.name!r} is a tool of the contract")
            specs[contract.definition.name] = contract
        for spec in specs.values():
            for seat in spec.seats or ():
                if seat not in environment.seats:
                    place = f"{environment.__qualname__}: tool {spec.definition.name!r}"
                    raise TypeError(f"{place}: no seat is named {seat!r}")
        self._seats = {
            seat: {name: spec for name, spec in specs.items() if spec.seats is None or seat in spec.seats}
            for seat in environment.seats
        }
        self._definitions = {
            seat: tuple(spec.definition for spec in offered.values()) for seat, offered in self._seats.items()
        }
        self._of_class, self._own = self, tuple[Tool, ...]()
        self.of_task: frozenset[str] = frozenset()
        """Names of the tools that only one task has."""
        self.tools: tuple[Tool, ...] = tuple(spec.definition for spec in specs.values())
        self.digest = tools_digest(self.tools)

    def now(self, environment: Environment[Any]) -> "Toolbox":
        """This toolbox with the environment's current `task_tools` added; the same object if they have not changed.

        Every seat may call them; the digest stays that of the class.

        Raises:
            TypeError: two tools have one name, or a schema is not valid.
        """
        if type(environment).task_tools is Environment.task_tools:
            return self
        own = tuple(environment.task_tools())
        if own == self._own:
            return self
        wider = self._of_class._extended(environment, own)
        wider._own, wider._of_class = own, self._of_class
        return wider

    def definitions(self, seat: str) -> tuple[Tool, ...]:
        """The seat's tools, as MCP lists them."""
        return self._definitions[seat]

    def find(self, seat: str, name: str) -> AnyTool:
        """The seat's tool of this name.

        Raises:
            ToolError: tells the model which tools there are.
        """
        offered = self._seats[seat]
        spec = offered.get(name)
        if spec is None:
            raise ToolError(f"unknown tool {name!r}; there are: {', '.join(offered) or 'none'}")
        return spec

    def _extended(self, environment: Environment[Any], definitions: Sequence[Tool]) -> "Toolbox":
        checks, specs = environment.checks_arguments, dict[str, AnyTool]()
        known = {tool.name for tool in self.tools}
        for definition in definitions:
            if definition.name in known or definition.name in specs:
                raise TypeError(f"the task offers two tools named {definition.name!r}, or one of the hub's own name")
            specs[definition.name] = checked_tool(definition) if checks else ForwardedTool(definition)
        wider = copy(self)
        wider.of_task = frozenset(specs)
        wider._seats = {seat: {**offered, **specs} for seat, offered in self._seats.items()}
        wider._definitions = {seat: (*offered, *definitions) for seat, offered in self._definitions.items()}
        return wider


def has_turns(environment: AnyEnvironment) -> bool:
    """Whether several seats wait for each other."""
    return environment.takes_turns and len(environment.seats) > 1


def tools_digest(tools: tuple[Tool, ...]) -> str:
    """A SHA-256 digest of a tool list, over its JSON."""
    listing = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    return "sha256:" + hashlib.sha256(to_json(listing)).hexdigest()[:32]


def _contract_tools(environment: AnyEnvironment) -> list[ToolSpec]:
    tools = [_contract_tool(GET_TASK, "The task, as it was given at the start.")]
    replies = any("reply" in vars(base) for base in environment.__mro__ if base is not Environment)
    if replies and has_turns(environment):
        tools.append(_contract_tool(LISTEN, _LISTEN))
        tools.append(_contract_tool(REPLY, _REPLY_IN_TURN, text="What to say."))
    elif replies:
        tools.append(_contract_tool(REPLY, "Say something to the user and read the answer.", text="What to say."))
    if environment.submits:
        tools.append(_contract_tool(SUBMIT, "Hand in the final answer. This ends the episode.", answer="The answer."))
    return tools


def _contract_tool(name: str, description: str, **arguments: str) -> ToolSpec:
    fields: dict[str, Any] = {key: (str, Field(description=note)) for key, note in arguments.items()}
    return tool_spec(name, description, name, fields, None)
