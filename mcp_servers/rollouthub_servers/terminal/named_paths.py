"""The paths that a task's texts name: what lies there is the agent's work, wherever it is."""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rollouthub_servers.terminal.program_settings import SHARED
from rollouthub_servers.terminal.program_variables import filled, paths_in

_TOP = 1
_MOST_NAMED = 40


def above(path: str) -> Iterator[str]:
    """The folders above an absolute path, except the root."""
    at = path.find("/", 1)
    while at != -1:
        yield path[:at]
        at = path.find("/", at + 1)


@dataclass(frozen=True)
class NamedPaths:
    """Paths, and the folders of files among them."""

    paths: frozenset[str] = frozenset()

    @classmethod
    def of(cls, text: str, homes: Iterable[str]) -> "NamedPaths":
        """The absolute paths in a text; `~` and `$HOME` stand for each of the homes."""
        found: set[str] = set()
        for home in {"", *homes} if "~" in text or "HOME" in text else [""]:
            found.update(paths_in(filled(text, {"HOME": home}), "/"))
        return cls(frozenset(found | {folder for path in found if (folder := _work_folder(path))}))

    def cover(self, path: str) -> bool:
        """Whether a path is named, or lies in a folder that is."""
        return path in self.paths or any(folder in self.paths for folder in above(path))

    def cover_below(self, folder: str, path: str) -> bool:
        """As `cover`, by what is named below `folder` alone."""
        return any(each in self.paths for each in (path, *above(path)) if each.startswith(f"{folder}/"))


def _work_folder(path: str) -> str | None:
    """The folder of a named file; None for a top-level folder that is shared."""
    folder = posixpath.dirname(path)
    if folder.strip("/").count("/") + 1 > _TOP:
        return folder
    return folder if folder.strip("/") and folder.strip("/") not in SHARED | {"etc", "lib", "tmp"} else None


def work_area(workdir: str) -> str | None:
    """The folder of the work around a working directory; None if that is the root."""
    parts = workdir.strip("/").split("/")
    if parts == [""]:
        return None
    return "/" + "/".join(parts[: 2 if parts[0] in SHARED else 1])


def some(paths: Sequence[str]) -> str:
    """The first of the paths, and how many more there are, in words."""
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return ", ".join(paths[:_MOST_NAMED]) + more
