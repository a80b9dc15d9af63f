"""The run store: one directory and one `run.db` a run, one writer, any number of readers, live or later."""

from rollouthub.store.reader import RunReader, open_run
from rollouthub.store.run_facts import BrokenRun, LiveState, Resumption, RoleUsage, RunInfo, Summary, Totals
from rollouthub.store.run_search import find_runs
from rollouthub.store.writer import RunWriter, open_writer

__all__ = [
    "BrokenRun",
    "LiveState",
    "Resumption",
    "RoleUsage",
    "RunInfo",
    "RunReader",
    "RunWriter",
    "Summary",
    "Totals",
    "find_runs",
    "open_run",
    "open_writer",
]
