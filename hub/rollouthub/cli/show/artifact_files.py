"""`hub show RUN ROLLOUT --artifacts`: lists the files collected from an episode, or writes them to a folder."""

import json
import os
import sys
from pathlib import Path, PurePosixPath

from rich.console import Console
from rich.table import Table

from rollouthub.errors import ConfigError
from rollouthub.rollout import Rollout
from rollouthub.score import Artifact
from rollouthub.store import RunReader
from rollouthub.store.media import media_name
from rollouthub.text import one_line

_NAME_BYTES, _PATH_BYTES = 200, 1000
"""Most bytes of a part of an artifact's name, and of its whole path; artifacts with longer names are named by
digest.
"""


def show_artifacts(
    console: Console, reader: RunReader, rollout: Rollout, folder: Path | None, *, as_json: bool
) -> None:
    """List a rollout's artifacts; if a folder is given, also write them there.

    Raises:
        ConfigError: the folder is not empty, is not a folder, or cannot be written to.
        RunDirectoryError: an artifact's stored bytes do not match its digest.
        UnknownNameError: an artifact's bytes are missing from the run.
    """
    if folder is not None:
        _write(reader, rollout, folder)
    if as_json:
        sys.stdout.write(json.dumps([artifact.model_dump(mode="json") for artifact in rollout.artifacts]) + "\n")
        return
    if not rollout.artifacts:
        lost = " (some could not be collected)" if "artifacts" in rollout.gaps else ""
        console.print(f"nothing was collected of {rollout.rollout_id}{lost}", highlight=False)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("artifact", "bytes", "digest"):
        table.add_column(title, justify="right" if title == "bytes" else "left", no_wrap=title != "artifact")
    for artifact in rollout.artifacts:
        table.add_row(one_line(artifact.name, 200), f"{artifact.bytes:,}", artifact.digest[:23])
    console.print(table)


def _write(reader: RunReader, rollout: Rollout, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"{folder} is there already and not empty; name another folder with -o")
        for artifact in rollout.artifacts:
            data = reader.media(artifact.digest)
            try:
                _write_new(folder / _inside(artifact), data)
            except (FileExistsError, NotADirectoryError):  # of two whose names come to one, or lie in each other
                _write_new(folder / media_name(artifact.digest), data)
    except OSError as error:
        raise ConfigError(f"the artifacts cannot be written to {folder}: {error}") from error


def _write_new(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(data)


def _inside(artifact: Artifact) -> PurePosixPath:
    """The artifact's path relative to the folder; since an agent chose its name, it cannot lead outside the folder."""
    parts = [part for part in PurePosixPath(artifact.name).parts if part not in ("/", "//", "..", ".")]
    path = PurePosixPath(*parts)
    is_usual = str(path).isprintable() and len(os.fsencode(path)) <= _PATH_BYTES
    if not parts or not is_usual or any(len(os.fsencode(part)) > _NAME_BYTES for part in parts):
        return PurePosixPath(media_name(artifact.digest))
    return path
