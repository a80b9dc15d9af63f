"""The run store: a directory and a `run.db` for each run, one writer, any number of readers.

Imports `plugins` and below. Begin with `writer.py` and `reader.py`.
"""

from rollouthub.store.reader import RunReader, open_run
from rollouthub.store.run_facts import AttemptSummary, BrokenRun, LiveState, Resumption, RoleUsage, RunInfo, Totals
from rollouthub.store.run_search import find_runs
from rollouthub.store.writer import RunWriter, open_writer

__all__ = [
    "AttemptSummary",
    "BrokenRun",
    "LiveState",
    "Resumption",
    "RoleUsage",
    "RunInfo",
    "RunReader",
    "RunWriter",
    "Totals",
    "find_runs",
    "open_run",
    "open_writer",
]
