"""`OrsRecord`: the description of one imported environment of an ORS server."""

from pathlib import Path

from pydantic import JsonValue

from rollouthub_servers.foreign_app.app_record import AppRecord


class OrsRecord(AppRecord):
    """The content of a package's `ors.json`."""

    file = "ors.json"
    driver = "rollouthub_servers.ors.ors_driver"
    kind = "ORS server"

    folder: str
    """Name of the folder of the server's code."""
    entry: str
    """The program that starts the server."""
    name: str = ""
    """Name of the environment, as the server lists it."""
    splits: dict[str, int] = {}
    """Split → its number of tasks."""

    @property
    def code(self) -> str:
        """The folder of the server's code."""
        return self.folder

    def arguments(self, folder: Path) -> dict[str, JsonValue]:
        """Arguments of the driver."""
        return {"file": str(folder / self.entry)}
