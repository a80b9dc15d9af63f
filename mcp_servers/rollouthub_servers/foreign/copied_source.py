"""`copied_source`: a copy of the code that an import names: a folder, one file and what lies beside it, or a commit."""

import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rollouthub.errors import ConfigError
from rollouthub.plugins.components import component
from rollouthub.plugins.importers import ImportSource, Note
from rollouthub_servers.foreign.copied_folder import copy_file, copy_folder

CODE = "code"
_MOST_BYTES = 1 << 30
_SKIPPED = frozenset({"__pycache__", ".git", ".venv", "venv", "node_modules", "logs", "site-packages"})


@dataclass(frozen=True)
class CopiedSource:
    """A folder that holds nothing but the copy."""

    folder: Path
    only: Path | None
    """Below the folder: the one file that was named; None where a folder was."""
    revision: str | None
    """The commit."""


@contextmanager
def copied_source(source: ImportSource, files: Sequence[str], note: Note) -> Generator[CopiedSource]:
    """Copy a source for the block; `files` lie beside a source that is one file. A commit is fetched once, and kept.

    Raises:
        ConfigError: a link leads out of it, it is too large, or a file is missing.
    """
    with tempfile.TemporaryDirectory(prefix="rollouthub-") as temporary:
        folder = Path(temporary).resolve() / CODE
        if source.kind == "file":
            file = Path(source.text)
            _copy_files(file.parent, (file.name, *files), folder)
            yield CopiedSource(folder, Path(file.name), None)
            return
        if files:
            raise ConfigError("files: that names what lies beside one file, and SOURCE is none")
        revision: str | None = None
        root = Path(source.text)
        if source.kind == "git":
            root = Path(component("foreign_checkout")(source.text, note))
            revision = source.text.partition("#")[0].rpartition("@")[2]
        copy_folder(root, folder, left_out, most_bytes=_MOST_BYTES)
        yield CopiedSource(folder, None, revision)


def left_out(folder: str, names: Sequence[str]) -> list[str]:
    """What of a folder is no part of its code; for `copy_folder`."""
    return [name for name in names if name in _SKIPPED]


def _copy_files(root: Path, names: Sequence[str], folder: Path) -> None:
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ConfigError(f"files: {name!r} is not the name of a file beside {names[0]!r}")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        copy_file(root / name, folder / name, root)
