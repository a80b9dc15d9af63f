"""Finding task folders: one, or all below a folder."""

from collections.abc import Iterator
from pathlib import Path

from rollouthub.errors import ConfigError

TASK_FILE = "task.toml"
OLD_FILE = "task.yaml"
"""What terminal-bench 1, the format before, has in its place."""
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
    found = sorted((folder.relative_to(root).as_posix(), folder) for folder in _below(root, DEEPEST, TASK_FILE, {root}))
    if not found:
        if (root / OLD_FILE).is_file() or next(_below(root, DEEPEST, OLD_FILE, {root}), None) is not None:
            raise ConfigError(
                f"data = {data!r}: these are tasks of terminal-bench 1 ({OLD_FILE}), the format before Harbor's; "
                f"convert them with Harbor's own program, "
                f"`uvx harbor task migrate --input {data} --output NEW`, and name NEW"
            )
        raise ConfigError(f"data = {data!r}: neither this folder nor one below it has a {TASK_FILE}")
    return found


def _below(folder: Path, levels: int, file: str, seen: set[Path]) -> Iterator[Path]:
    """Folders with such a file, links to folders followed; a folder that holds others is searched once."""
    try:
        children = sorted(child for child in folder.iterdir() if not child.name.startswith(".") and child.is_dir())
    except OSError as error:
        raise ConfigError(f"the folder {str(folder)!r} cannot be read: {error.strerror}") from error
    for child in children:
        if (child / file).is_file():
            yield child
        elif levels > 1 and (real := child.resolve()) not in seen:
            seen.add(real)
            yield from _below(child, levels - 1, file, seen)
