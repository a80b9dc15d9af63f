"""The changes an agent made in a sandbox, as JSON: for an environment's `snapshot` and `restore`, and for scoring
again.
"""

import base64
import gzip
import io
import re
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import cast

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, JsonValue

from rollouthub.errors import AgentError
from rollouthub.sandbox import MIB, CommandNotStarted, File, FileEntry, Sandbox, SandboxFileError, folders_above

MOST_BYTES = 20 * MIB
"""Most bytes of the changed files together."""
MOST_PATHS = 5_000
"""Most paths that were added, changed or removed, because an agent decides how many there are."""
_MOST_UNPACKED = 2 * MOST_BYTES
"""Most bytes of a state's unpacked archive, because a state may come from elsewhere."""
_UNREADABLE = re.compile("[\ufffd\ud800-\udfff]")
"""Characters that stand for bytes of a path that are not UTF-8."""
_MOST_LISTED = 100_000
"""Most entries of a folder in which something was changed."""
_AT_ONCE = 200
"""Most paths in one command."""
_LONGEST_TARGET = 4096
"""Most bytes of a link's target."""
_SYSTEM = ("/bin", "/lib", "/sbin", "/usr")
"""Folders of the programs that restore a state; changes in them are made last."""
_CLEAR = 'for path; do if [ -L "$path" ] || [ ! -d "$path" ]; then rm -f -- "$path"; fi; done'
_READ_LINKS = 'for path; do readlink -n -- "$path" && printf "\\0" || exit 1; done'
_MAKE_LINKS = 'while [ $# -gt 0 ]; do rm -rf -- "$1" && ln -s -- "$2" "$1" || exit 1; shift 2; done'


class SandboxChanges(BaseModel):
    """The differences between a sandbox and its image."""

    model_config = ConfigDict(extra="forbid")

    files: str
    """New and changed files as a gzipped tar archive in base64."""
    folders: list[str]
    """New folders."""
    removed: list[str]
    links: dict[str, str] = {}
    """New and changed symbolic links → their targets."""


async def changes_of(sandbox: Sandbox, *, max_bytes: int = MOST_BYTES) -> JsonValue:
    """The changes in a sandbox whose programs have ended, for `bring_back`; equal changes give equal results.

    Raises:
        SandboxFileError: there are too many changes, or devices, pipes or names that are not UTF-8 among them, which
        are
            not supported.
        NotOffered: the sandbox takes no snapshots.
    """
    snapshot = await sandbox.snapshot()
    try:
        changed = snapshot.changed
    finally:
        await snapshot.discard()
    if len(changed) > MOST_PATHS:
        raise SandboxFileError(f"{len(changed):,} paths are changed, more than {MOST_PATHS:,}", "EFBIG")
    entries = await _entries(sandbox, changed)
    for path, entry in entries.items():
        if entry.kind == "other":
            raise SandboxFileError(f"{path} is a pipe, a socket or a device, which is not kept", "EOPNOTSUPP")
    links = await _links(sandbox, [path for path, entry in entries.items() if entry.kind == "symlink"])
    wanted = sorted(path for path, entry in entries.items() if entry.kind == "file")
    found = await sandbox.collect(wanted, max_bytes=max_bytes)
    if len(found) < len(wanted):
        raise SandboxFileError(f"{len(wanted) - len(found):,} changed files could not be read", "EIO")
    return SandboxChanges(
        files=await to_thread.run_sync(_packed, sorted(found, key=lambda file: file.path)),
        folders=[path for path in changed if path in entries and entries[path].kind == "directory"],
        removed=[path for path in changed if path not in entries],
        links=links,
    ).model_dump(mode="json")


async def bring_back(sandbox: Sandbox, state: JsonValue, *, user: str | None = None) -> None:
    """Make the changes again in a fresh sandbox of the same image.

    Files are written before any link is made, so that none is written through a link; paths are removed last, because
    the agent may have removed the programs that this needs.

    Raises:
        AgentError: the changes cannot be made again, for example because the agent broke a folder of programs.
        ValueError: the state does not come from `changes_of`.
    """
    changes = SandboxChanges.model_validate(state)
    if len(changes.folders) + len(changes.removed) + len(changes.links) > MOST_PATHS:
        raise ValueError(f"it has more than {MOST_PATHS:,} paths")
    files = await to_thread.run_sync(_unpacked, changes.files)
    paths = [f"/{file.path}" for file in files]
    links = sorted(changes.links, key=_order)
    try:
        above = folders_above((*paths, *changes.folders, *links))
        await _each(sandbox, user, _CLEAR, sorted({*above, *changes.folders}))
        await _each(sandbox, user, 'mkdir -p -- "$@"', changes.folders)
        await _each(sandbox, user, 'rm -rf -- "$@"', paths)
        await sandbox.place(files, "/")
        await _each(sandbox, user, _MAKE_LINKS, [word for link in links for word in (link, changes.links[link])])
        await _each(sandbox, user, 'rm -rf -- "$@"', _to_remove(changes.removed, (*paths, *links)))
    except (SandboxFileError, CommandNotStarted) as error:
        raise AgentError(f"what the agent changed cannot be brought back: {error}", retryable=False) from error


def _to_remove(removed: Sequence[str], made: Iterable[str]) -> list[str]:
    """The removed paths, except those below another removed path or below a path that is now a file or a link."""
    gone = {*removed, *made}
    found = (path for path in removed if not gone.intersection(folders_above([path])))
    return sorted(found, key=_order)


def _order(path: str) -> tuple[bool, str]:
    return path.startswith(_SYSTEM), path


async def _links(sandbox: Sandbox, paths: Sequence[str]) -> dict[str, str]:
    """Symbolic links → their targets."""
    found: dict[str, str] = {}
    for start in range(0, len(paths), _AT_ONCE):
        asked = paths[start : start + _AT_ONCE]
        try:
            said = await sandbox.exec(
                ["/bin/sh", "-c", _READ_LINKS, "links", *asked],
                cwd="/",
                output_bytes=2 * _AT_ONCE * (_LONGEST_TARGET + 1),
                keeps_background=False,  # the agent may have replaced readlink
            )
        except CommandNotStarted as error:
            raise SandboxFileError(f"the links that were made cannot be read: {error}", error.reason) from error
        targets = said.stdout.text.split("\0")[:-1]
        if said.exit_status != 0 or len(targets) != len(asked):
            raise SandboxFileError(f"the links that were made cannot be read: {said.stderr.text[-300:]}", "EIO")
        for path, target in zip(asked, targets, strict=True):
            if not target or _UNREADABLE.search(target):
                raise SandboxFileError(f"{path!r} names {target!r}, which is no name that is kept", "EILSEQ")
            found[path] = target
    return found


async def _entries(sandbox: Sandbox, paths: Sequence[str]) -> dict[str, FileEntry]:
    """Path → entry, for those paths that exist; each parent folder is listed once."""
    found: dict[str, FileEntry] = {}
    for path in paths:
        if _UNREADABLE.search(path):
            raise SandboxFileError(f"{path!r} is no name that is kept", "EILSEQ")
    for folder in sorted({str(PurePosixPath(path).parent) for path in paths}):
        try:
            listed = await sandbox.list_files(folder, max_entries=_MOST_LISTED)
        except SandboxFileError as error:
            if error.reason not in ("ENOENT", "ENOTDIR"):
                raise
            continue
        found |= {entry.path: entry for entry in listed}
    wanted = set(paths)
    return {path: entry for path, entry in found.items() if path in wanted}


async def _each(sandbox: Sandbox, user: str | None, script: str, paths: Sequence[str]) -> None:
    for start in range(0, len(paths), _AT_ONCE):
        command = ["/bin/sh", "-c", script, "restore", *paths[start : start + _AT_ONCE]]
        finished = await sandbox.exec(command, cwd="/", user=user)
        if finished.exit_status != 0:
            raise SandboxFileError(f"the state cannot be brought back: {finished.stderr.text[-300:]}", "EIO")


def _packed(files: Iterable[File]) -> str:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            entry = tarfile.TarInfo(file.path)
            entry.size, entry.mode = len(file.data), file.mode
            archive.addfile(entry, cast(io.BufferedReader, io.BytesIO(file.data)))
    return base64.b64encode(gzip.compress(target.getvalue(), mtime=0)).decode()


def _unpacked(text: str) -> list[File]:
    found: list[File] = []
    with gzip.open(io.BytesIO(base64.b64decode(text))) as packed:
        data = packed.read(_MOST_UNPACKED + 1)
    if len(data) > _MOST_UNPACKED:
        raise ValueError(f"its files have more than {_MOST_UNPACKED:,} bytes")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            if len(found) == MOST_PATHS:
                raise ValueError(f"it has more than {MOST_PATHS:,} files")
            if member.issparse():  # its holes are as large as it says, and take no bytes of the archive
                raise ValueError(f"{member.name[:200]!r} is a sparse file, which no state of this hub has")
            reader = archive.extractfile(member) if member.isreg() else None
            if reader is not None:
                found.append(File(member.name, reader.read(), member.mode & 0o7777))
    return found
