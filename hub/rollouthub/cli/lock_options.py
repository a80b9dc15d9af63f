"""The options that restrict a command to the versions in a `hub.lock`."""

from pathlib import Path
from typing import Annotated

import typer

from rollouthub.errors import ConfigError

LockedOption = Annotated[
    bool,
    typer.Option(
        "--locked",
        help="Run only if environments and hub are exactly those in the nearest hub.lock.",
        rich_help_panel="Robustness",
    ),
]


def lock_file(is_locked: bool, file: Path | None) -> Path | None:
    """The lock file whose versions the command must use; None if there is no such restriction.

    Raises:
        ConfigError: `--locked` was given, and there is no lock file here or in a folder above.
    """
    if file is not None or not is_locked:
        return file
    from rollouthub.plugins.lock import FILE_NAME, nearest_lock

    found = nearest_lock(Path.cwd())
    if found is None:
        raise ConfigError(f"there is no {FILE_NAME} here or in a folder above; `hub lock ENV…` writes one")
    return found
