"""Files over a connection to a supervisor: read, written, listed; collected and placed many at a time."""

import struct
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rollouthub.errors import SandboxError
from rollouthub.sandbox import File, FileEntry, SandboxFileError
from rollouthub_sandboxes.supervisor import frames
from rollouthub_sandboxes.supervisor.channel import Budget, Channel, Collecting, Failure

if TYPE_CHECKING:
    from rollouthub_sandboxes.supervisor.client import Connection

FILE_SECONDS = 300.0
_PARALLEL = 32
"""Files read or written at the same time."""
_LIST_BYTES = 64 << 20
_READ, _LIST, _ENTRY, _U32 = struct.Struct("<QI"), struct.Struct("<II"), struct.Struct("<BIQ"), struct.Struct("<I")
_MISSING = {"ENOENT", "ENOTDIR"}
_NO_FILE = {"ENOENT", "ENOTDIR", "ELOOP", "EISDIR", "EINVAL", "ENXIO", "ENODEV", "EFTYPE"}
"""Error names that mean a listed file was removed or replaced since it was listed."""


async def read_file(connection: "Connection", path: str, *, max_bytes: int, follows_links: bool) -> bytes:
    """The bytes of a regular file.

    Raises:
        SandboxFileError, SandboxError: as `Sandbox.read_file`.
    """
    request = _READ.pack(max(max_bytes, 0), 0 if follows_links else frames.NO_LINKS) + _text(path)
    channel = Collecting(connection, Budget(max_bytes))
    with _attempt(connection, channel, f"file {path!r} of the sandbox could not be read"):
        connection.post("R", channel.number, request)
        await channel.finish(FILE_SECONDS)
        return bytes(channel.data)


async def list_files(connection: "Connection", path: str, *, recursive: bool, max_entries: int) -> list[FileEntry]:
    """The entries of a folder, sorted by path; with `recursive`, those of its subfolders, too.

    Raises:
        SandboxFileError, SandboxError: as `Sandbox.list_files`.
    """
    request = _LIST.pack(frames.RECURSIVE if recursive else 0, min(max_entries, 0xFFFF_FFFF)) + _text(path)
    channel = Collecting(connection, Budget(_LIST_BYTES))
    with _attempt(connection, channel, f"folder {path!r} of the sandbox could not be listed"):
        connection.post("L", channel.number, request)
        await channel.finish(FILE_SECONDS)
    try:
        entries = sorted(_entries(bytes(channel.data), path), key=lambda entry: entry.path)
    except (struct.error, IndexError) as error:
        raise SandboxError(f"the listing of {path!r} cannot be read: {error}") from error
    if len(entries) > max_entries:
        raise SandboxFileError(f"folder {path!r} of the sandbox has more than {max_entries} entries", "EFBIG")
    return entries


async def write_file(connection: "Connection", path: str, data: bytes, *, mode: int, user: str) -> None:
    """Write a whole file.

    Raises:
        SandboxFileError, SandboxError: as `Sandbox.write_file`.
    """
    channel = Channel(connection)
    with _attempt(connection, channel, _unwritten(path)):
        await _send(connection, channel, path, data, mode, user)
        await channel.finish(FILE_SECONDS)


async def place(connection: "Connection", files: Iterable[File], below: str, *, user: str) -> None:
    """Write files below a folder, up to 32 at the same time.

    Raises:
        SandboxFileError, SandboxError: as `Sandbox.place`.
    """
    under_way: deque[tuple[Channel, str]] = deque()
    try:
        for file in files:
            path = str(PurePosixPath(below) / _inside(file.path))
            channel = Channel(connection)
            under_way.append((channel, path))
            with _naming(_unwritten(path)):
                await _send(connection, channel, path, file.data, file.mode, user)
            if len(under_way) >= _PARALLEL:
                await _settle(connection, *under_way[0])
                under_way.popleft()
        while under_way:
            await _settle(connection, *under_way[0])
            under_way.popleft()
    finally:
        for channel, _ in under_way:
            channel.give_up()
            connection.forget(channel.number)


async def collect(connection: "Connection", paths: Sequence[str], *, max_bytes: int) -> list[File]:
    """The regular files at or below absolute paths, up to 32 read at the same time.

    Raises:
        SandboxFileError, SandboxError: as `Sandbox.collect`.
    """
    entries: dict[str, FileEntry] = {}
    listed: set[str] = set()
    """Paths of files and folders found in listings, which need not be asked for again."""
    links: dict[str, frozenset[str]] = {}
    """Symbolic links of each folder that was listed."""
    for path in paths:
        if not path.startswith("/"):
            raise SandboxFileError(f"{path!r} cannot be collected: only an absolute path can", "EINVAL")
        if path in listed:
            continue
        try:
            found = await list_files(connection, path, recursive=True, max_entries=1_000_000)
        except SandboxFileError as error:
            if error.reason not in _MISSING:
                raise
            continue
        is_file = len(found) == 1 and found[0].path == path
        if not is_file and await _is_link(connection, path, links):
            continue  # what is listed is its target's, and none of what was asked for
        listed.update(entry.path for entry in found)
        entries |= {entry.path: entry for entry in found if entry.kind == "file"}
    size = sum(entry.bytes for entry in entries.values())
    if size > max_bytes:
        raise _too_large(paths, size, max_bytes)
    return [file async for file in _read_all(connection, sorted(entries.items()), paths, max_bytes)]


async def _is_link(connection: "Connection", path: str, known: dict[str, frozenset[str]]) -> bool:
    """Whether a path is a symbolic link; each folder's links are asked for once and remembered in `known`."""
    folder = str(PurePosixPath(path).parent)
    if folder not in known:
        listed = await list_files(connection, folder, recursive=False, max_entries=1_000_000)
        known[folder] = frozenset(entry.path for entry in listed if entry.kind == "symlink")
    return path in known[folder]


async def _read_all(
    connection: "Connection", wanted: Sequence[tuple[str, FileEntry]], paths: Sequence[str], max_bytes: int
) -> AsyncGenerator[File]:
    budget = Budget(max_bytes)
    under_way: deque[tuple[Collecting, FileEntry]] = deque()
    waiting = iter(wanted)
    try:
        while True:
            while len(under_way) < _PARALLEL and (following := next(waiting, None)) is not None:
                channel = Collecting(connection, budget)
                under_way.append((channel, following[1]))
                connection.post("R", channel.number, _READ.pack(max_bytes, frames.NO_LINKS) + _text(following[0]))
            if not under_way:
                return
            channel, entry = under_way[0]
            try:
                await channel.finish(FILE_SECONDS)
                yield File(path=entry.path.lstrip("/"), data=bytes(channel.data), mode=entry.mode)
            except Failure as failure:
                if failure.reason == "EFBIG":
                    raise _too_large(paths, max_bytes - budget.left, max_bytes) from failure
                if failure.reason not in _NO_FILE:
                    raise SandboxFileError(
                        f"{entry.path!r} could not be collected: {failure}", failure.reason
                    ) from failure
            connection.forget(channel.number)
            under_way.popleft()
    finally:
        for channel, _ in under_way:
            channel.give_up()
            connection.forget(channel.number)


async def _send(connection: "Connection", channel: Channel, path: str, data: bytes, mode: int, user: str) -> None:
    request = _U32.pack(mode & 0o7777) + _text(user) + _text(path)
    connection.post("P", channel.number, request)
    await channel.feed(data)
    channel.feed_eof()


async def _settle(connection: "Connection", channel: Channel, path: str) -> None:
    with _naming(_unwritten(path)):
        await channel.finish(FILE_SECONDS)
    connection.forget(channel.number)


@contextmanager
def _attempt(connection: "Connection", channel: Channel, problem: str) -> Generator[None]:
    """Give a request up if it is left before its end, and raise its failure as `SandboxFileError` with this message."""
    try:
        with _naming(problem):
            yield
    finally:
        channel.give_up()
        connection.forget(channel.number)


@contextmanager
def _naming(problem: str) -> Generator[None]:
    try:
        yield
    except Failure as failure:
        raise SandboxFileError(f"{problem}: {failure}", failure.reason) from failure


def _entries(data: bytes, path: str) -> Iterator[FileEntry]:
    at = 0
    while at < len(data):
        kind, mode, size = _ENTRY.unpack_from(data, at)
        name, at = frames.read_string(data, at + _ENTRY.size)
        below = name.decode("utf-8", "surrogateescape")
        where = f"{path.rstrip('/')}/{below}" if below else path
        yield FileEntry(path=where, kind=frames.KINDS[int(kind)], bytes=size, mode=mode & 0o7777)


def _inside(path: str) -> PurePosixPath:
    inside = PurePosixPath(path)
    if not path or inside.is_absolute() or ".." in inside.parts or not inside.parts:
        raise SandboxFileError(f"{path!r} cannot be placed: it is not a path within the folder", "EINVAL")
    return inside


def _text(value: str) -> bytes:
    if "\0" in value:
        raise SandboxFileError(f"{value!r} is no path: there is a NUL character in it", "EINVAL")
    try:
        data = frames.string(value)
    except UnicodeEncodeError as error:
        raise SandboxFileError(f"{value!r} is no path: {error}", "EILSEQ") from error
    if len(data) > 4096 + 4:
        raise SandboxFileError(f"a path of {len(data) - 4} bytes is too long", "ENAMETOOLONG")
    return data


def _unwritten(path: str) -> str:
    return f"file {path!r} of the sandbox could not be written"


def _too_large(paths: Sequence[str], size: int, max_bytes: int) -> SandboxFileError:
    return SandboxFileError(
        f"the files below {', '.join(paths)} have {size:,} bytes or more together; {max_bytes:,} are allowed", "EFBIG"
    )
