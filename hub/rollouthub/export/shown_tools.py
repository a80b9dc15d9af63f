"""The tools that a model was shown, as the record of its turns says."""

from collections.abc import Sequence

from mcp_types import Tool

from rollouthub.hosting.local.toolbox import LOOP_TOOLS
from rollouthub.rollout import Rollout, Turn

_SHOW_NONE = frozenset({"single_turn", "react"})
_SHOW_NO_CONTRACT = frozenset({"tool_loop", "oracle", "null", "replay", "human"})
"""Agents that showed a model no tools, and agents that showed all tools but the contract's own. It is used for old
records, whose turns do not say which tools were shown.
"""


def shown_tools(rollout: Rollout, turns: Sequence[Turn], offered: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools shown at the last turn that records them, because a chat template takes one list for a whole
    conversation.

    `offered` are all tools of the environment.

    Raises:
        ValueError: a turn names a tool whose definition is unknown.
    """
    names = next((turn.tools for turn in reversed(turns) if turn.tools is not None), None)
    if names is None:
        return _usual(rollout.agent.name, offered)
    known = {tool.name: tool for tool in offered} | rollout.other_tools
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"it was shown the tool {unknown[0]!r}, which its run does not have")
    return tuple(known[name] for name in names)


def _usual(agent: str, offered: Sequence[Tool]) -> tuple[Tool, ...]:
    if agent in _SHOW_NONE:
        return ()
    left_out = LOOP_TOOLS if agent in _SHOW_NO_CONTRACT else frozenset[str]()
    return tuple(tool for tool in offered if tool.name not in left_out)
