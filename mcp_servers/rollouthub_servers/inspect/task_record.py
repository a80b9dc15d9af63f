"""`TaskRecord`: the description of an imported task, stored in `task.json` beside its samples, code and lock."""

from pathlib import Path

from pydantic import JsonValue

from rollouthub.values import Frozen
from rollouthub_servers.foreign.imported_file import read_imported

RECORD, SAMPLES, CODE, DATASETS, SPLIT = "task.json", "samples.jsonl", "code", "datasets", "test"


class TaskRecord(Frozen):
    """One task, described when the import loaded it."""

    name: str
    place: dict[str, JsonValue]
    """Where the driver finds it: `module`, or `file` below the code; and `task`, the function, with its `args`."""
    count: int = 0
    """Number of samples that were kept."""
    has_ids: bool = False
    """Whether its samples have names of their own, each another."""
    scorers: tuple[str, ...] = ()
    code: str | None = None
    """Folder of the code beside the record; None where it is in the wheel."""
    absent: tuple[str, ...] = ()
    """Modules that could not be installed."""
    datasets: dict[str, str] = {}
    """Name of a data set → the folder beside the record that is read in its place."""

    @classmethod
    def read(cls, data: str) -> "TaskRecord":
        """The record in an imported folder.

        Raises:
            ConfigError: there is none.
        """
        return read_imported(cls, Path(data) / RECORD, "`hub import inspect` writes such a folder")
