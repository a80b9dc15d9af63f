"""MARTI: a workflow (`workflow_func_path` takes `../marti_workflow.py`) over environments, a seat for each agent."""

from rollouthub.trainers.marti.seat_steps import AgentConfig, SeatModels, result_of, workflow

__all__ = ["AgentConfig", "SeatModels", "result_of", "workflow"]
