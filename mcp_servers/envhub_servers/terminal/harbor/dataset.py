"""Finding task folders: one, or all below a folder."""

from collections.abc import Iterator
from pathlib import Path

from envhub.errors import ConfigError

TASK_FILE = "task.toml"
DEEPEST = 6
"""Levels below the folder that are searched."""


def find_tasks(data: str) -> list[tuple[str, Path]]:
    """The task folders that `data` names, each with its id, sorted.

    An id is the folder's path below `data`; where `data` is itself a task, its name.

    Raises:
        ConfigError: there is no such folder, or no task in it.
    """
    root = Path(data).expanduser()
    if not root.is_dir():
        raise ConfigError(f"data = {data!r}: there is no such folder; name a Harbor task's, or one that holds several")
    root = root.resolve()
    if (root / TASK_FILE).is_file():
        return [(root.name, root)]
    found = sorted((folder.relative_to(root).as_posix(), folder) for folder in _below(root, DEEPEST))
    if not found:
        raise ConfigError(f"data = {data!r}: neither this folder nor one below it has a {TASK_FILE}")
    return found


def _below(folder: Path, levels: int) -> Iterator[Path]:
    try:
        children = [child for child in folder.iterdir() if child.is_dir() and not child.is_symlink()]
    except OSError as error:
        raise ConfigError(f"the folder {str(folder)!r} cannot be read: {error.strerror}") from error
    for child in children:
        if child.name.startswith("."):
            continue
        if (child / TASK_FILE).is_file():
            yield child
        elif levels > 1:
            yield from _below(child, levels - 1)
