"""The run store: each run is a directory with a `run.db`, one writer and any number of readers.

Imports `plugins` and below. Begin with `writer.py` and `reader.py`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rollouthub.store.reader import RunReader, open_run
    from rollouthub.store.run_facts import AttemptSummary, BrokenRun, LiveState, Resumption, RoleUsage, RunInfo, Totals
    from rollouthub.store.run_search import find_runs
    from rollouthub.store.writer import RunWriter, open_writer

_HOME = {
    "reader": ("RunReader", "open_run"),
    "run_facts": ("AttemptSummary", "BrokenRun", "LiveState", "Resumption", "RoleUsage", "RunInfo", "Totals"),
    "run_search": ("find_runs",),
    "writer": ("RunWriter", "open_writer"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

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


def __getattr__(name: str) -> object:
    # Loaded on first use: a shell's completion looks for runs, and waits for no reader or writer.
    if name in _MODULE:
        return getattr(import_module(f"{__name__}.{_MODULE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
