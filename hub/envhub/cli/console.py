"""Where the command line prints: stdout for results, stderr for progress; bounded by nothing but a terminal."""

import sys

from rich.console import Console

PIPE_WIDTH = 100_000
"""Columns where no terminal is: what a script looks for is neither cut off nor broken over two lines."""


def results() -> Console:
    """For what a command was asked for."""
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def remarks() -> Console:
    """For progress and remarks."""
    return Console(stderr=True, width=None if sys.stderr.isatty() else PIPE_WIDTH, highlight=False)
