"""Restores paths of a snapshot from the image, through the engine alone."""

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
from rollouthub_sandboxes.docker.engine import Engine, EngineError
from rollouthub_sandboxes.docker.image_contents import looked_into

_NOT_FOUND = 404
_FOLDER = 1 << 31
"""Of a file's mode, as the engines' language has it."""
_MANY = 64
"""From so many paths below one folder of the root on, that folder is read once instead of each path."""
_AT_ONCE = 200
"""Paths in one command: it has a longest length."""


@asynccontextmanager
async def put_back(
    engine: Engine, image: Image, kept: str, paths: Sequence[str], altered: frozenset[str], run: str
) -> AsyncGenerator[tuple[str, list[str], list[str]] | None]:
    """A container of the image `kept`, never started, with the files of `image` at these paths.

    Gives its id, the paths that were put back, and those of them that the image lacks: each of these is an empty file
    that nobody may run, to be removed once the container has started. None where no path differs: a folder in both,
    with something below it changed or only its own date.

    Raises:
        EngineError: the engine could not do it.
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
        await engine.call(engine.slow_api.put_archive, new, "/", _empty_files(topmost))
        had = await _restore(engine, old, new, topmost)
        yield new, topmost, [path for path in topmost if path not in had]


async def remove_leftovers(sandbox: Sandbox, paths: Sequence[str]) -> None:
    """Remove the empty files that stand where the image has nothing, with the image's own programs.

    Raises:
        SandboxError: it cannot be done.
    """
    for start in range(0, len(paths), _AT_ONCE):
        done = await sandbox.exec(
            ["/bin/rm", "-rf", "--", *paths[start : start + _AT_ONCE]], user="0", cwd="/", keeps_background=False
        )
        if done.exit_status != 0:
            raise SandboxError(f"files that the image does not have could not be removed: {done.stderr.text[-500:]}")


def _topmost(paths: Iterable[str]) -> list[str]:
    """The paths without those below another one."""
    found: list[str] = []
    for path in sorted(paths, key=lambda path: PurePosixPath(path).parts):
        if not found or not path.startswith(f"{found[-1]}/"):
            found.append(path)
    return found


async def _is_kept(engine: Engine, old: str, new: str, path: str) -> bool:
    """Whether it is a folder in both: what changed below it is listed by itself."""
    return await _is_folder(engine, new, path) and await _is_folder(engine, old, path)


async def _is_folder(engine: Engine, container: str, path: str) -> bool:
    def look() -> bool:
        stream, facts = engine.api.get_archive(container, path)
        for _ in stream:  # the answer is let go of, unread
            break
        return bool(int(facts.get("mode", 0)) & _FOLDER)

    try:
        return await engine.call_again(look)
    except EngineError as error:
        if error.status == _NOT_FOUND:
            return False
        raise


async def _restore(engine: Engine, old: str, new: str, paths: Sequence[str]) -> set[str]:
    """Copy paths of one container into the other; those that there were."""
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
    """Copy many paths below a folder, which is read once."""
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
    """Copy the members of an archive that are at or below the wanted names; which of these there were."""
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
    """What an engine sends, piece by piece, as a file to be read."""

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


def _empty_files(paths: Sequence[str]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in paths:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.mode = 0
            archive.addfile(entry)
    return target.getvalue()
