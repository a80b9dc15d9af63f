"""Any environment in, any MCP-capable agent in the middle, any trainer out; every score can be defended.

The names below are the public API. They load on first use, so that `import rollouthub` and `hub --help` stay light.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from rollouthub.plugins import moved as _moved

if TYPE_CHECKING:
    from rollouthub.environment import Environment, EnvironmentConfig, SandboxedConfig
    from rollouthub.errors import (
        AgentError,
        HubError,
        ModelError,
        SandboxError,
        SupplyError,
        TaskError,
        ToolError,
        UsageError,
        VerifierError,
    )
    from rollouthub.export.segment import Segment, segments
    from rollouthub.generation import Model, ModelReply, ModelRequest, Sampling
    from rollouthub.limits import Deadlines, Limits
    from rollouthub.messages import Media, Message, Text, ToolRequest, picture
    from rollouthub.protocols import Agent, Episode, Seat
    from rollouthub.rollout import Outcome, Rollout, Stop, ToolCall, Turn
    from rollouthub.sandbox import Build, Resources, Sandbox, SandboxProvider, SandboxSpec
    from rollouthub.score import Artifact, Component, ModelCall, Score, SpanReward, Submission, SubmittedTurn
    from rollouthub.task import BadRow, Public, Secret, Task
    from rollouthub.tools import tool
    from rollouthub.trainers.stream import RolloutGroup, Supply, stream_rollouts
    from rollouthub.views.notebook import aevaluate, evaluate, open_run

_HOME = {
    "environment": ("Environment", "EnvironmentConfig", "SandboxedConfig"),
    "errors": (
        "AgentError",
        "HubError",
        "ModelError",
        "SandboxError",
        "SupplyError",
        "TaskError",
        "ToolError",
        "UsageError",
        "VerifierError",
    ),
    "limits": ("Deadlines", "Limits"),
    "messages": ("Media", "Message", "Text", "ToolRequest", "picture"),
    "views.notebook": ("aevaluate", "evaluate", "open_run"),
    "protocols": ("Agent", "Episode", "Seat"),
    "rollout": ("Outcome", "Rollout", "Stop", "ToolCall", "Turn"),
    "generation": ("Model", "ModelReply", "ModelRequest", "Sampling"),
    "sandbox": ("Build", "Resources", "Sandbox", "SandboxProvider", "SandboxSpec"),
    "score": ("Artifact", "Component", "ModelCall", "Score", "SpanReward", "Submission", "SubmittedTurn"),
    "export.segment": ("Segment", "segments"),
    "trainers.stream": ("RolloutGroup", "Supply", "stream_rollouts"),
    "task": ("BadRow", "Public", "Secret", "Task"),
    "tools": ("tool",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Agent",
    "AgentError",
    "Artifact",
    "BadRow",
    "Build",
    "Component",
    "Deadlines",
    "Environment",
    "EnvironmentConfig",
    "Episode",
    "HubError",
    "Limits",
    "Media",
    "Message",
    "Model",
    "ModelCall",
    "ModelError",
    "ModelReply",
    "ModelRequest",
    "Outcome",
    "Public",
    "Resources",
    "Rollout",
    "RolloutGroup",
    "Sampling",
    "Sandbox",
    "SandboxError",
    "SandboxProvider",
    "SandboxSpec",
    "SandboxedConfig",
    "Score",
    "Seat",
    "Secret",
    "Segment",
    "SpanReward",
    "Stop",
    "Submission",
    "SubmittedTurn",
    "Supply",
    "SupplyError",
    "Task",
    "TaskError",
    "Text",
    "ToolCall",
    "ToolError",
    "ToolRequest",
    "Turn",
    "UsageError",
    "VerifierError",
    "aevaluate",
    "evaluate",
    "open_run",
    "picture",
    "segments",
    "stream_rollouts",
    "tool",
]

_moved.install()


def __getattr__(name: str) -> object:
    name = _moved.current_name("rollouthub", name)
    if name in _MODULE:
        return getattr(import_module(f"rollouthub.{_MODULE[name]}"), name)
    raise AttributeError(f"module 'rollouthub' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
