"""`OpenEnvRecord`: the description of an imported OpenEnv environment."""

from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue

from rollouthub_servers.foreign_app.app_record import AppRecord


class OpenEnvRecord(AppRecord):
    """The content of a package's `openenv.json`."""

    file = "openenv.json"
    driver = "rollouthub_servers.openenv.openenv_driver"
    kind = "OpenEnv environment"

    name: str
    """Name of the environment's package, and of the folder of its code."""
    app: str
    """The ASGI application, as `module:name`."""
    title: str = ""
    about: str = ""
    actions: str = ""
    """The author's description of an action."""
    line: Literal["ws", "http"] = "ws"
    """The routes to play over: `/ws`, or the environment's own `/reset` and `/step`."""
    mcp: Literal["type", "action_type"] | None = None
    """The form of its MCP mode; None where it takes actions instead."""
    action: dict[str, Any] = {}
    """The JSON schema of an action."""
    shown: tuple[str, ...] = ()
    """Fields of an observation that an agent sees unless others were chosen."""
    withheld: tuple[str, ...] = ()
    """Fields of an observation that agents do not see unless the user names them, and those that tell not even then; a
    field in neither list is an error.
    """
    tools: tuple[str, ...] = ()
    """The tools of its MCP mode that are offered unless others were chosen."""
    judging: tuple[str, ...] = ()
    """The tools that are offered only where the user names them."""
    headers: dict[str, str] = {}
    """Headers for the environment's own `/reset` and `/step`, as given at the import."""

    @property
    def code(self) -> str:
        """The folder of the environment's code."""
        return self.name

    def arguments(self, folder: Path) -> dict[str, JsonValue]:
        """Arguments of the driver."""
        return {"package": self.name, "app": self.app, "headers": dict(self.headers)}
