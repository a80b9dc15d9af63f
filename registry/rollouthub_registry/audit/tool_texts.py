"""What tools show: the words of their definitions, and of their results for well and ill formed arguments."""

import json
from collections.abc import Sequence
from typing import Any, cast

import anyio
from mcp_types import Tool

from rollouthub.protocols import AgentPlane
from rollouthub_registry.audit.reference_answer import OF_THE_HUB
from rollouthub_registry.check.argument_samples import ill_formed, well_formed
from rollouthub_registry.check.scripted_episode import words_of

_MOST_TOOLS, _MOST_CALLS = 40, 4
_CALL_SECONDS = 5.0
"""Longest that a call is waited for: where seats take turns, one may wait for another."""
_MOST_UNANSWERED = 2
"""Number of tools that did not answer in that time after which no more are tried."""


def texts_of_tools(tools: Sequence[Tool]) -> str:
    """Names, descriptions and schemas of tools, without choices, one of which may well be right."""
    return "\n".join(json.dumps(_without_choices(tool.model_dump(mode="json")), ensure_ascii=False) for tool in tools)


def _without_choices(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return {
            key: _without_choices(item)
            for key, item in fields.items()
            if not (key == "enum" and isinstance(item, list) and len(cast("list[Any]", item)) > 1)
        }
    if isinstance(value, list):
        return [_without_choices(item) for item in cast("list[Any]", value)]
    return value


async def results_of(plane: AgentPlane, text: str | None = None, *, ill: bool = False) -> list[tuple[str, bool, str]]:
    """Names of tools, whether they refused, and the words of their results; with `ill` for arguments that no tool of
    the schema takes, else for such as fit it.
    """
    found: list[tuple[str, bool, str]] = []
    unanswered = 0
    for tool in plane.tools[:_MOST_TOOLS]:
        if tool.name in OF_THE_HUB:
            continue
        calls = [arguments for _, arguments in ill_formed(tool)] if ill else list(well_formed(tool, text))
        if not ill and not tool.input_schema.get("properties"):
            calls = calls * _MOST_CALLS  # some say more the next time
        for arguments in calls[:_MOST_CALLS]:
            with anyio.move_on_after(_CALL_SECONDS) as scope:
                result = await plane.call_tool(tool.name, arguments)
                found.append((tool.name, bool(result.is_error), words_of(result)))
            if scope.cancelled_caught:
                unanswered += 1
                break
        if unanswered == _MOST_UNANSWERED:
            break
    return found
