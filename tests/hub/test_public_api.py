"""The public API is a decision: adding or removing a name changes this list."""

import subprocess
import sys

import pytest

import rollouthub
from rollouthub.trainers import stream

PUBLIC = [
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


def test_the_public_names_are_these() -> None:
    assert rollouthub.__all__ == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_there_and_keeps_its_identity(name: str) -> None:
    found = getattr(rollouthub, name)
    assert found.__name__ == name
    assert getattr(sys.modules[found.__module__], name) is found


def test_dir_lists_the_public_names() -> None:
    assert dir(rollouthub) == sorted(PUBLIC)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Enviroment'"):
        _ = rollouthub.Enviroment  # type: ignore[attr-defined]


def test_a_name_of_before_is_there_until_the_next_minor_version() -> None:
    with pytest.warns(FutureWarning, match="rollouthub.collect is called rollouthub.stream_rollouts now"):
        assert getattr(rollouthub, "collect") is rollouthub.stream_rollouts  # noqa: B009
    with pytest.warns(FutureWarning, match="stream.collect is called"):
        assert getattr(stream, "collect") is rollouthub.stream_rollouts  # noqa: B009


def test_importing_the_package_loads_next_to_nothing() -> None:
    code = (
        "import sys, rollouthub; print(*(name for name in ('pydantic', 'mcp_types', 'anyio') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
