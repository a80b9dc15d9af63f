"""A run in a notebook: tables, and pages that show it."""

from rollouthub.notebook.evaluation import aevaluate, evaluate
from rollouthub.notebook.run import Run, open_run

__all__ = ["Run", "aevaluate", "evaluate", "open_run"]
