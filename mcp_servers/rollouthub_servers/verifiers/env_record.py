"""`EnvRecord`: the description of an imported environment, stored in `environment.json` beside its rows, code and
lock.
"""

from pathlib import Path
from typing import Literal

from pydantic import JsonValue, ValidationError

from rollouthub.errors import ConfigError
from rollouthub.values import Frozen

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
        file = Path(data) / RECORD
        try:
            return cls.model_validate_json(file.read_bytes())
        except OSError as error:
            raise ConfigError(
                f"{file} cannot be read: {error.strerror or error}; `hub import verifiers` writes such a folder"
            ) from error
        except ValidationError as error:
            raise ConfigError(f"{file} is damaged, or of a newer hub: {error.errors()[0]['msg']}") from error
