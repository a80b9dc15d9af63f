"""Where the command line prints: stdout for results, stderr for progress; wide where no terminal bounds it."""

import sys

from rich.console import Console

PIPE_WIDTH = 200


def results() -> Console:
    """For what a command was asked for."""
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def remarks() -> Console:
    """For progress and remarks."""
    return Console(stderr=True, width=None if sys.stderr.isatty() else PIPE_WIDTH, highlight=False)
