"""`EnvRecord`: the description of an imported environment, stored in `environment.json` beside its rows, code and
lock.
"""

from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from rollouthub.values import Frozen
from rollouthub_servers.foreign.imported_file import read_imported

RECORD, ROWS, CODE, DATASETS = "environment.json", "rows", "code", "datasets"
Kind = Literal["v0", "v1"]
Judge = Literal["refuse", "none"]


class EnvRecord(Frozen):
    """One environment, described when the import loaded it."""

    name: str
    kind: Kind
    """`v0` has `load_environment`, `v1` a `Taskset`."""
    module: str
    args: dict[str, JsonValue] = {}
    """The arguments it was loaded with."""
    splits: dict[str, int]
    """Split → number of rows that were stored."""
    max_turns: int | None = None
    """Maximum number of agent messages that the environment allows."""
    judge: Judge = "refuse"
    code: str | None = None
    """Folder of the environment's code beside the record; None where the code is in the wheel."""
    absent: tuple[str, ...] = ()
    """Modules that could not be installed."""
    datasets: dict[str, str] = {}
    """Name of a data set → the folder beside the record that is read in its place."""

    @classmethod
    def read(cls, data: str) -> "EnvRecord":
        """The record in an imported folder.

        Raises:
            ConfigError: there is none.
        """
        return read_imported(cls, Path(data) / RECORD, "`hub import verifiers` writes such a folder")
