"""The file for MARTI's `workflow_func_path`: it defines `workflow`."""

from rollouthub.trainers.marti import workflow

__all__ = ["workflow"]
