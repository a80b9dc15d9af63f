"""The options that hold a command to a `hub.lock`."""

from pathlib import Path
from typing import Annotated

import typer

from rollouthub.errors import ConfigError

LockedOption = Annotated[
    bool,
    typer.Option(
        "--locked",
        help="Play exactly what the nearest hub.lock names, or refuse.",
        rich_help_panel="Robustness",
    ),
]


def lock_file(is_locked: bool, file: Path | None) -> Path | None:
    """The lock that a command is held to; None where it is held to none.

    Raises:
        ConfigError: it is to be held to one, and there is none.
    """
    if file is not None or not is_locked:
        return file
    from rollouthub.plugins.lock import FILE_NAME, nearest_lock

    found = nearest_lock(Path.cwd())
    if found is None:
        raise ConfigError(f"there is no {FILE_NAME} here or in a folder above; `hub lock ENV…` writes one")
    return found
