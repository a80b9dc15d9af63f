"""File operations of a sandbox without a supervisor, done with the image's own programs."""

import io
import posixpath
import tarfile
from collections.abc import Sequence
from typing import Literal

from rollouthub.errors import SandboxError
from rollouthub.sandbox import CommandNotStarted, File, FileEntry, Sandbox, SandboxFileError
from rollouthub_sandboxes.docker.folder_archive import MOST_BYTES

SECONDS = 120.0
_REASONS = {3: "ENOENT", 4: "EISDIR", 5: "EACCES", 6: "ELOOP", 7: "EINVAL"}
_SAID = {
    "No space left": "ENOSPC",
    "Read-only file": "EROFS",
    "Permission denied": "EACCES",
    "Not a directory": "ENOTDIR",
    "File exists": "ENOTDIR",
}
_READ = """
[ -e "$1" ] || [ -L "$1" ] || exit 3
if [ "$3" = no ]; then p=$1; while [ "$p" != / ]; do [ -L "$p" ] && exit 6; p=$(dirname "$p"); done; fi
[ -e "$1" ] || exit 3
[ -d "$1" ] && exit 4
[ -f "$1" ] || exit 7
[ -r "$1" ] || exit 5
exec head -c "$2" -- "$1"
"""
_WRITE = """
mkdir -p -- "$(dirname "$1")" || exit 1
if [ -L "$1" ]; then rm -f -- "$1" || exit 1; fi
[ -d "$1" ] && exit 4
cat >"$1.envhub.$$" && chmod "$2" "$1.envhub.$$" && mv -f -- "$1.envhub.$$" "$1" && exit 0
rm -f -- "$1.envhub.$$"
exit 1
"""

_PACK = """
[ -e "$1" ] || [ -L "$1" ] || exit 3
p=$1; while [ "$p" != / ]; do p=$(dirname "$p"); [ -L "$p" ] && exit 3; done
exec tar -C / -cf - -- ".$1"
"""


async def read_file(sandbox: Sandbox, path: str, max_bytes: int, follows_links: bool) -> bytes:
    """The bytes of a regular file.

    Raises:
        SandboxFileError: as `Sandbox.read_file`.
    """
    words = ["/bin/sh", "-c", _READ, "sh", path, str(max_bytes + 1), "yes" if follows_links else "no"]
    done = await sandbox.exec(words, cwd="/", timeout_seconds=SECONDS, output_bytes=2 * max_bytes + 4)
    if done.exit_status != 0:
        raise _failed("reading", path, done.exit_status, done.stderr.text)
    data = done.stdout.head + done.stdout.tail
    if len(data) > max_bytes:
        raise SandboxFileError(f"reading {path!r}: it has more than {max_bytes:,} bytes", "EFBIG")
    return data


async def write_file(sandbox: Sandbox, path: str, data: bytes, mode: int, user: str | None) -> None:
    """Write a whole file.

    Raises:
        SandboxFileError: as `Sandbox.write_file`.
    """
    words = ["/bin/sh", "-c", _WRITE, "sh", path, f"{mode & 0o7777:o}"]
    done = await sandbox.exec(words, stdin=data, cwd="/", user=user, timeout_seconds=SECONDS)
    if done.exit_status != 0:
        raise _failed("writing", path, done.exit_status, done.stderr.text)


async def list_files(sandbox: Sandbox, path: str, recursive: bool, max_entries: int) -> list[FileEntry]:
    """The entries of a folder; with `recursive`, those of its subfolders, too.

    Raises:
        SandboxFileError: as `Sandbox.list_files`.
    """
    top = posixpath.normpath(path)
    found: list[FileEntry] = []
    for member in await _members(sandbox, top, MOST_BYTES):
        here = posixpath.normpath(f"/{member.name}")
        if (here == top and member.isdir()) or (not recursive and here != top and posixpath.dirname(here) != top):
            continue
        found.append(FileEntry(here, _kind(member), member.size, member.mode & 0o7777))
        if len(found) > max_entries:
            raise SandboxFileError(f"listing {path!r}: there are more than {max_entries:,} entries", "EFBIG")
    return sorted(found, key=lambda entry: entry.path)


async def collect(sandbox: Sandbox, paths: Sequence[str], max_bytes: int) -> list[File]:
    """The regular files at or below paths.

    Raises:
        SandboxFileError: the files are larger than `max_bytes` together.
    """
    found: dict[str, File] = {}
    left = max_bytes
    for path in paths:
        try:
            data = await _tar(sandbox, posixpath.normpath(path), max_bytes)
        except SandboxFileError as error:
            if error.reason != "ENOENT":
                raise
            continue
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                reader = archive.extractfile(member) if _is_file(member) else None
                if reader is None or member.name in found:
                    continue
                file = File(posixpath.normpath(member.name), reader.read(), member.mode & 0o7777)
                left -= len(file.data)
                if left < 0:
                    raise SandboxFileError(f"collecting {path!r}: there are more than {max_bytes:,} bytes", "EFBIG")
                found[member.name] = file
    return sorted(found.values(), key=lambda file: file.path)


def _kind(member: tarfile.TarInfo) -> Literal["file", "directory", "symlink", "other"]:
    if member.isdir():
        return "directory"
    if member.issym():
        return "symlink"
    return "file" if _is_file(member) else "other"


def _is_file(member: tarfile.TarInfo) -> bool:
    return member.isreg() or member.islnk()


async def _members(sandbox: Sandbox, path: str, max_bytes: int) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(await _tar(sandbox, path, max_bytes))) as archive:
        return archive.getmembers()


async def _tar(sandbox: Sandbox, path: str, max_bytes: int) -> bytes:
    """A tar archive of what is at a path; symbolic links in the path are not followed."""
    most = max_bytes + (max_bytes >> 2) + (1 << 20)
    words = ["/bin/sh", "-c", _PACK, "sh", path]
    try:
        done = await sandbox.exec(words, cwd="/", timeout_seconds=SECONDS, output_bytes=2 * most)
    except CommandNotStarted as error:
        raise SandboxError(f"files cannot be read from a sandbox without a shell: {error}", retryable=False) from error
    if done.exit_status not in (0, 1):
        raise _failed("packing", path, done.exit_status, done.stderr.text)
    if done.stdout.dropped_bytes or len(done.stdout.head) > most:
        raise SandboxFileError(f"packing {path!r}: there are more than {max_bytes:,} bytes", "EFBIG")
    return done.stdout.head


def _failed(what: str, path: str, status: int | None, said: str) -> SandboxFileError:
    reason = _REASONS.get(status or 0) or next((name for text, name in _SAID.items() if text in said), "EIO")
    return SandboxFileError(f"{what} {path!r}: {said.strip() or reason}", reason)
