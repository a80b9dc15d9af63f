"""Copies folders between sandboxes as tar archives, links included."""

import io
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import cast

from anyio import to_thread

from rollouthub.sandbox import CommandNotStarted, File, Sandbox, SandboxFileError

MOST_BYTES = 256 << 20
"""Largest archive of a set of folders; it is held in memory."""
TAR_SECONDS = 300.0
_KINDS = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE)


async def pack(sandbox: Sandbox, folders: Iterable[str], *, user: str | None = None) -> bytes:
    """The contents of a sandbox's folders as one tar archive, without entries for the folders themselves.

    Raises:
        SandboxFileError: the archive is larger than 256 MiB, or a folder cannot be read, by a `tar` that the agent put
            there for example.
    """
    names = [folder.lstrip("/") for folder in folders]
    if not names:
        return b""
    try:
        data = await _run_tar(sandbox, names, user)
    except CommandNotStarted:
        files = await sandbox.collect([f"/{name}" for name in names], max_bytes=MOST_BYTES)
        return await to_thread.run_sync(_packed, files)
    try:
        return await to_thread.run_sync(clean, data, _inside(names))
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise SandboxFileError(f"the folders {', '.join(names)} were packed by no tar: {error}", "EIO") from error


async def unpack(sandbox: Sandbox, archive: bytes, *, user: str | None = None) -> None:
    """Unpack an archive made by `pack` in another sandbox.

    Raises:
        SandboxFileError: the files do not fit, or could not be written.
    """
    if not archive:
        return
    try:
        done = await sandbox.exec(
            ["tar", "-xpf", "-"], stdin=archive, cwd="/", user=user, timeout_seconds=TAR_SECONDS, output_bytes=4096
        )
        if done.exit_status != 0:
            said = done.stderr.text.strip() or "tar failed"
            raise SandboxFileError(f"files could not be put into a sandbox: {said}", "EIO")
    except CommandNotStarted:
        await _place(sandbox, archive, user)


def clean(archive: bytes, keeps: Callable[[str], str | None]) -> bytes:
    """A copy of an archive with each member renamed by `keeps`, or dropped where that gives None; devices and pipes
    are dropped.
    """
    target = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as source,
        tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as cleaned,
    ):
        for member in source:
            name = keeps(member.name)
            if name is None or member.type not in _KINDS:
                continue
            member.name = name
            if member.islnk():
                linked = keeps(member.linkname)
                if linked is None:
                    continue
                member.linkname = linked
            cleaned.addfile(member, source.extractfile(member) if member.isreg() else None)
    return target.getvalue()


def moved(folder: str, mounted: Iterable[str] = ()) -> Callable[[str], str | None]:
    """A renaming for `clean`: turns names as an engine packs a folder, relative to its parent, into paths below the
    root.

    Folders in `mounted` are left out: they exist in every container, and unpacking must not change them.
    """
    there = {name.lstrip("/") for name in mounted}
    path = PurePosixPath(folder)

    def keeps(name: str) -> str | None:
        below = PurePosixPath(name).parts[1:]
        is_safe = below and ".." not in below
        whole = str(path.joinpath(*below)).lstrip("/")
        return whole if is_safe and whole not in there else None

    return keeps


def changes(archive: bytes, before: bytes) -> list[str]:
    """Paths whose entries differ between two archives, or are in only one of them."""
    old, new = dict(_contents(before)), dict(_contents(archive))
    return sorted(f"/{name}" for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def joined(archives: Iterable[bytes]) -> bytes:
    """One archive with the members of several."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as whole:
        for archive in archives:
            with tarfile.open(fileobj=io.BytesIO(archive)) as source:
                for member in source:
                    whole.addfile(member, source.extractfile(member) if member.isreg() else None)
    return target.getvalue()


def with_own(archive: bytes, own: bytes, paths: Iterable[str]) -> bytes:
    """The archive with what `own` has at and below the paths, in place of its own members there."""
    names = {path.lstrip("/") for path in paths}

    def is_below(name: str) -> bool:
        path = PurePosixPath(name)
        return any(str(each) in names for each in (path, *path.parents))

    others, theirs = (
        clean(each, lambda name, keeps=keeps: name if is_below(name) is keeps else None) if each else b""
        for each, keeps in ((archive, False), (own, True))
    )
    return joined(each for each in (others, theirs) if each)


def is_empty(archive: bytes) -> bool:
    """Whether an archive has no members."""
    return not archive or not any(_contents(archive))


def _contents(archive: bytes) -> Iterator[tuple[str, tuple[bytes, int, str, bytes]]]:
    if not archive:
        return
    with tarfile.open(fileobj=io.BytesIO(archive)) as source:
        for member in source:
            reader = source.extractfile(member) if member.isreg() else None
            yield member.name, (member.type, member.mode, member.linkname, reader.read() if reader else b"")


def _inside(names: list[str]) -> Callable[[str], str | None]:
    folders = [PurePosixPath(name) for name in names]

    def keeps(name: str) -> str | None:
        path = PurePosixPath(name)
        is_inside = ".." not in path.parts and any(folder in path.parents for folder in folders)
        return str(path) if is_inside and path not in folders else None

    return keeps


async def _run_tar(sandbox: Sandbox, names: list[str], user: str | None) -> bytes:
    kept = bytearray()
    async with sandbox.start(
        ["tar", "-cf", "-", "--", *names], cwd="/", user=user, timeout_seconds=TAR_SECONDS
    ) as program:
        await program.send_eof()
        async for side, data in program.output():
            if side == "stdout":
                kept += data
                if len(kept) > MOST_BYTES:
                    raise SandboxFileError(
                        f"the folders {', '.join(names)} hold more than {MOST_BYTES:,} bytes together", "EFBIG"
                    )
        done = await program.wait()
    if done.exit_status not in (0, 1):  # 1: a file changed while it was read
        raise SandboxFileError(
            f"the folders {', '.join(names)} could not be packed: tar gave {done.exit_status}", "EIO"
        )
    return bytes(kept)


async def _place(sandbox: Sandbox, archive: bytes, user: str | None) -> None:
    """Unpack an archive without a tar program in the image: regular files only."""
    files: list[File] = []
    with tarfile.open(fileobj=io.BytesIO(archive)) as source:
        for member in source:
            if member.issym() or member.islnk():
                raise SandboxFileError(
                    f"/{member.name} is a link, which needs a tar program in the image to be put into a sandbox",
                    "ENOSYS",
                )
            reader = source.extractfile(member) if member.isreg() else None
            if reader is not None:
                files.append(File(member.name, reader.read(), member.mode & 0o7777))
    await sandbox.place(files, "/", user=user)


def _packed(files: list[File]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            entry = tarfile.TarInfo(file.path)
            entry.size, entry.mode = len(file.data), file.mode
            archive.addfile(entry, cast(io.BufferedReader, io.BytesIO(file.data)))
    return target.getvalue()
