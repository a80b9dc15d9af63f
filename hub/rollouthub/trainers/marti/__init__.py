"""MARTI: a workflow file for `workflow_func_path` (`../marti_workflow.py`) that plays the hub's environments, one
seat for each MARTI agent.
"""

from rollouthub.trainers.marti.seat_steps import AgentConfig, SeatModels, result_of, workflow

__all__ = ["AgentConfig", "SeatModels", "result_of", "workflow"]
