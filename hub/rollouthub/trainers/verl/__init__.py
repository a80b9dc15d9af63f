"""veRL: an agent loop over its own engine, managers of whole batches and groups, batches, a reward function, prompts.

`HubAgentLoop`, `HubAgentLoopManager` and `HubAgentLoopManagerTQ` derive from veRL's classes and are created on first
access; only that imports veRL.
"""

from typing import TYPE_CHECKING, Any

from rollouthub.trainers.verl.advantages import compute_advantage
from rollouthub.trainers.verl.batch import BatchRow, data_proto, data_protos, rows_of_data_proto
from rollouthub.trainers.verl.batch_columns import BatchColumns, columns
from rollouthub.trainers.verl.learnable import learnable
from rollouthub.trainers.verl.outputs import loop_outputs, masked_output
from rollouthub.trainers.verl.prompts import prompt_rows, write_prompts
from rollouthub.trainers.verl.reward import compute_score

if TYPE_CHECKING:
    HubAgentLoop: Any
    HubAgentLoopManager: Any
    HubAgentLoopManagerTQ: Any

__all__ = [
    "BatchColumns",
    "BatchRow",
    "HubAgentLoop",
    "HubAgentLoopManager",
    "HubAgentLoopManagerTQ",
    "columns",
    "compute_advantage",
    "compute_score",
    "data_proto",
    "data_protos",
    "learnable",
    "loop_outputs",
    "masked_output",
    "prompt_rows",
    "rows_of_data_proto",
    "write_prompts",
]


def __getattr__(name: str) -> Any:
    """Create a subclass of one of veRL's classes on first access, because veRL imports torch, Ray and transformers."""
    if name == "HubAgentLoop":
        from rollouthub.trainers.verl.agent_loop import agent_loop_class

        made = agent_loop_class()
    elif name == "HubAgentLoopManager":
        from rollouthub.trainers.verl.manager import agent_loop_manager_class

        made = agent_loop_manager_class()
    elif name == "HubAgentLoopManagerTQ":
        from rollouthub.trainers.verl.stream_manager import agent_loop_manager_tq_class

        made = agent_loop_manager_tq_class()
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = made
    return made
