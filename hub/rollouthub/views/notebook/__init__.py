"""A run in a notebook: as tables, and as HTML that notebooks display."""

from rollouthub.views.notebook.evaluation import aevaluate, evaluate
from rollouthub.views.notebook.notebook_run import Run, open_run

__all__ = ["Run", "aevaluate", "evaluate", "open_run"]
