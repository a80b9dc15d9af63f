"""The options of `hub connect`."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from rollouthub.gateway.app_configs import App
from rollouthub.settings import Option
from rollouthub.values import Frozen


class ConnectOptions(Frozen):
    """Options of `hub connect`: the task, and where the record goes."""

    task: Annotated[str | None, Option(metavar="ID")] = Field(
        default=None, description="The task's id; a random task by default."
    )
    output: Annotated[Path | None, Option(short="-o")] = Field(
        default=None,
        description="Where runs are kept, a folder for each start; the user's own store by default.",
    )
    print_config: App | None = Field(
        default=None,
        description="Print the configuration that makes an app start this server, instead of starting it.",
    )
