"""Restores paths of a snapshot to the image's own files, through the engine alone."""

import io
import tarfile
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import PurePosixPath
from tempfile import TemporaryFile
from typing import IO, cast

from rollouthub.errors import SandboxError
from rollouthub.sandbox import Sandbox
from rollouthub_sandboxes.docker.container_layout import Image
from rollouthub_sandboxes.docker.image_contents import looked_into
from rollouthub_sandboxes.engine.engine import Engine, EngineError

_NOT_FOUND = 404
_FOLDER = 1 << 31
"""The bit of a folder in a file mode as the engines report it (Go's `FileMode`)."""
_MANY = 64
"""With more paths than this below one top-level folder, the folder is read once instead of each path."""
_AT_ONCE = 200
"""Paths in one `rm` command, since a command line has a maximum length."""


@asynccontextmanager
async def put_back(
    engine: Engine, image: Image, kept: str, paths: Sequence[str], altered: frozenset[str], workdir: str, run: str
) -> AsyncGenerator[tuple[str, list[str], list[str]] | None]:
    """A container of the image `kept`, never started, in which `paths` have the files of `image` again.

    Yields its id, the paths that were restored, and those of them that the image lacks: each of these is an empty file
    without permissions, to be removed once the container has started; of these `workdir` is an empty folder, as an
    engine makes it. Yields None where no path needs restoring: each is a folder in both images, in which only entries
    below it or its own date changed.

    Raises:
        EngineError: a call of the engine failed.
    """
    async with AsyncExitStack() as stack:
        new = await stack.enter_async_context(looked_into(engine, replace(image, id=kept), run))
        old = await stack.enter_async_context(looked_into(engine, image, run))
        topmost = _topmost(
            [path for path in paths if path not in altered or not await _is_kept(engine, old, new, path)]
        )
        if not topmost:
            yield None
            return
        # First each is an empty file: whatever the agent made of it is gone, and no link is left to follow.
        await engine.call(engine.slow_api.put_archive, new, "/", _empty(topmost))
        had = await _restore(engine, old, new, topmost)
        if workdir in topmost and workdir not in had:
            await engine.call(engine.slow_api.put_archive, new, "/", _empty([workdir], tarfile.DIRTYPE, 0o755))
            had.add(workdir)
        yield new, topmost, [path for path in topmost if path not in had]


async def remove_leftovers(sandbox: Sandbox, paths: Sequence[str]) -> None:
    """Remove the empty files at paths that the image does not have, with the image's own `rm`.

    Raises:
        SandboxError: the files could not be removed.
    """
    for start in range(0, len(paths), _AT_ONCE):
        done = await sandbox.exec(
            ["/bin/rm", "-rf", "--", *paths[start : start + _AT_ONCE]], user="0", cwd="/", keeps_background=False
        )
        if done.exit_status != 0:
            raise SandboxError(f"files that the image does not have could not be removed: {done.stderr.text[-500:]}")


def _topmost(paths: Iterable[str]) -> list[str]:
    """The paths, without those below another of them."""
    found: list[str] = []
    for path in sorted(paths, key=lambda path: PurePosixPath(path).parts):
        if not found or not path.startswith(f"{found[-1]}/"):
            found.append(path)
    return found


async def _is_kept(engine: Engine, old: str, new: str, path: str) -> bool:
    """Whether a path is a folder in both containers; entries below it that changed are listed separately."""
    return await is_folder(engine, new, path) and await is_folder(engine, old, path)


async def is_folder(engine: Engine, container: str, path: str) -> bool:
    """Whether a container has a folder, and no link to one, at a path."""
    mode = await _mode(engine, container, path)
    return mode is not None and bool(mode & _FOLDER)


async def is_there(engine: Engine, container: str, path: str) -> bool:
    """Whether a container has anything at a path."""
    return await _mode(engine, container, path) is not None


async def _mode(engine: Engine, container: str, path: str) -> int | None:
    """The mode of what is at a path, as the engine reports it; None if nothing is."""

    def look() -> int:
        stream, facts = engine.api.get_archive(container, path)
        for _ in stream:  # the answer is let go of, unread
            break
        return int(facts.get("mode", 0))

    try:
        return await engine.call_again(look)
    except EngineError as error:
        if error.status == _NOT_FOUND:
            return None
        raise


async def _restore(engine: Engine, old: str, new: str, paths: Sequence[str]) -> set[str]:
    """Copy paths from the container `old` to `new`; return those that exist in `old`."""
    below: dict[str, list[str]] = {}
    for path in paths:
        below.setdefault(PurePosixPath(path).parts[1], []).append(path)
    had: set[str] = set()
    for name, group in below.items():
        if len(group) > _MANY:
            had |= await _copy_from(engine, old, new, f"/{name}", group)
            continue
        for path in group:
            if await _copy(engine, old, new, path):
                had.add(path)
    return had


async def _copy(engine: Engine, old: str, new: str, path: str) -> bool:
    def copy() -> None:
        stream, _ = engine.slow_api.get_archive(old, path)
        engine.slow_api.put_archive(new, str(PurePosixPath(path).parent), stream)

    try:
        await engine.call(copy)
    except EngineError as error:
        if error.status == _NOT_FOUND:
            return False
        raise
    return True


async def _copy_from(engine: Engine, old: str, new: str, folder: str, paths: Sequence[str]) -> set[str]:
    """Copy many paths below a folder, reading the folder once; return the paths found in it."""
    wanted = {path.lstrip("/") for path in paths}

    def copy() -> set[str]:
        with TemporaryFile() as file:
            stream, _ = engine.slow_api.get_archive(old, folder)
            found = _chosen(_Pieces(stream), file, wanted)
            file.seek(0)
            engine.slow_api.put_archive(new, "/", file)
        return {f"/{name}" for name in found}

    return await engine.call(copy)


def _chosen(source: "_Pieces", target: IO[bytes], wanted: set[str]) -> set[str]:
    """Copy the archive members at or below the wanted names to `target`; return the wanted names that were found."""
    found: set[str] = set()
    with (
        tarfile.open(fileobj=cast(IO[bytes], source), mode="r|") as whole,
        tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as chosen,
    ):
        for member in whole:
            path = PurePosixPath(member.name)
            at = next((str(each) for each in (path, *path.parents) if str(each) in wanted), None)
            if at is not None:
                found.add(at)
                chosen.addfile(member, whole.extractfile(member) if member.isreg() else None)
    return found


class _Pieces:
    """A readable file over the byte pieces that an engine sends."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._left = pieces, b""

    def read(self, count: int = -1, /) -> bytes:
        kept = bytearray(self._left)
        while count < 0 or len(kept) < count:
            piece = next(self._pieces, b"")
            if not piece:
                break
            kept += piece
        size = len(kept) if count < 0 else count
        self._left = bytes(kept[size:])
        return bytes(kept[:size])


def _empty(paths: Sequence[str], kind: bytes = tarfile.REGTYPE, mode: int = 0) -> bytes:
    """An archive of empty files, or folders, without permissions unless some are given."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in paths:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.mode = kind, mode
            archive.addfile(entry)
    return target.getvalue()
