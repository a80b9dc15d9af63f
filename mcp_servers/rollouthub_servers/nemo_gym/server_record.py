"""`ServerRecord`: the description of an imported server, stored beside its rows and its lock."""

from pathlib import Path

from pydantic import JsonValue

from rollouthub.values import Frozen
from rollouthub_servers.foreign.imported_file import read_imported

RECORD, ROWS = "server.json", "rows"


class ServerRecord(Frozen):
    """An imported server with one configuration."""

    name: str
    """Name of the server's folder."""
    instance: str
    """Name of the instance in the configuration."""
    config: str
    """The file from which the configuration was read."""
    settings: dict[str, JsonValue]
    """The settings in that file, with references replaced by their defaults."""
    splits: tuple[str, ...]
    steps: bool = False
    """Whether the server is gymnasium-style, with the routes `/reset` and `/step`."""
    absent: tuple[str, ...] = ()
    """Modules that could not be installed; using one fails."""
    folder: str | None = None
    """Folder of the server's code relative to the record; None if the code is in the wheel."""

    @classmethod
    def read(cls, data: str) -> "ServerRecord":
        """Read the record of an import folder.

        Raises:
            ConfigError: there is none.
        """
        return read_imported(cls, Path(data) / RECORD, "`hub import nemo_gym` writes such a folder")
