"""A run in a notebook: tables, and pages that show it."""

from rollouthub.notebook.run import Run, open_run

__all__ = ["Run", "open_run"]
