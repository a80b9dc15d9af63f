"""The file for OpenRLHF's `--train.agent_func_path`: it defines `AgentExecutor`, created on first access."""

from typing import Any

from rollouthub.trainers.openrlhf import agent_executor


def __getattr__(name: str) -> Any:
    """Create `AgentExecutor` on first access: the class needs OpenRLHF, importing this file does not."""
    if name != "AgentExecutor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, agent_executor())
