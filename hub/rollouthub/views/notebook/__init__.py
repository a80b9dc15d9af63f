"""A run in a notebook: tables, and pages that show it."""

from rollouthub.views.notebook.evaluation import aevaluate, evaluate
from rollouthub.views.notebook.notebook_run import Run, open_run

__all__ = ["Run", "aevaluate", "evaluate", "open_run"]
