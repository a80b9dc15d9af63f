"""Finds task folders: a single one, or all below a folder."""

from collections.abc import Iterator
from pathlib import Path

from rollouthub.errors import ConfigError

TASK_FILE = "task.toml"
OLD_FILE = "task.yaml"
"""Name of the task file in the preceding format, Terminal-Bench 1."""
DEEPEST = 6
"""Number of levels below the folder that are searched."""


def find_tasks(data: str) -> list[tuple[str, Path]]:
    """The task folders in `data` with their ids, sorted.

    An id is the folder's path below `data`, or the folder's name if `data` is itself a task.

    Raises:
        ConfigError: the folder does not exist, or contains no task.
    """
    root = Path(data).expanduser()
    if not root.is_dir():
        raise ConfigError(f"data = {data!r}: there is no such folder; name a Harbor task's, or one that holds several")
    root = root.resolve()
    found = folders_with(root, TASK_FILE)
    if not found:
        if folders_with(root, OLD_FILE):
            raise ConfigError(
                f"data = {data!r}: these are tasks of Terminal-Bench 1 ({OLD_FILE}), the format before Harbor's; "
                f"make them Harbor's with `hub import terminal_bench {data} -o NEW`, and run NEW"
            )
        raise ConfigError(f"data = {data!r}: neither this folder nor one below it has a {TASK_FILE}")
    return found


def folders_with(root: Path, file: str) -> list[tuple[str, Path]]:
    """The folders at or below `root` that contain such a file, sorted, with their paths below `root` (or its name)."""
    if (root / file).is_file():
        return [(root.name, root)]
    return sorted((folder.relative_to(root).as_posix(), folder) for folder in _below(root, DEEPEST, file, {root}))


def _below(folder: Path, levels: int, file: str, seen: set[Path]) -> Iterator[Path]:
    """Folders with such a file. Links to folders are followed, but no folder is searched twice."""
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
