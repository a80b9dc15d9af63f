"""Snapshots of a container's files: an image of its root where that is writable, and an archive of its other
folders.
"""

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import anyio
from anyio import to_thread

from rollouthub.errors import SandboxError
from rollouthub.sandbox import Sandbox, SandboxFileError, Snapshot, folders_above
from rollouthub.text import one_line
from rollouthub_sandboxes.docker.container_layout import SUPERVISOR_FOLDER, Image, Layout
from rollouthub_sandboxes.docker.folder_archive import MOST_BYTES, changes, pack, with_own
from rollouthub_sandboxes.docker.image_contents import image_seed, looked_into
from rollouthub_sandboxes.docker.image_paths import is_folder, is_there, put_back
from rollouthub_sandboxes.engine.api import Json
from rollouthub_sandboxes.engine.engine import Engine, EngineError
from rollouthub_sandboxes.engine.labels import PURPOSE, RUN, labels, this_process

DISCARD_SECONDS = 30.0
_NOT_FOUND = 404
_UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""The character that an engine writes for bytes of a name that are not UTF-8."""
_UNKEEPABLE = ("file name too long", "too many levels of symbolic links", "archive/tar: ")
"""Parts of the engine's errors about files that it can neither list nor pack."""
_MARK, _MARK_OF_ALL = ".wh.", ".wh..wh..opq"
"""Names by which a layer of an image says that a file, or all of a folder, is not there."""
_ALTERED = 0
"""The engine's code for a changed path; 1 is an added path, 2 a removed one."""


@dataclass(frozen=True)
class DockerSnapshot:
    """A snapshot; the engine keeps it until it is discarded, its provider closes, or its deadline passes."""

    id: str
    changed: Sequence[str]
    archive: bytes = field(repr=False)
    """Tar archive of the writable folders that are not part of the root."""
    image: str | None
    """The image committed from the root, where that is writable; else None."""
    engine: Engine = field(repr=False)
    discarded: set[str] = field(repr=False)
    """The provider's set of images that are discarded but not removed yet, since an engine keeps an image in use."""
    origin: Image = field(repr=False)
    """The image that its container was started from."""
    run: str = field(repr=False)
    ttl_seconds: float = field(repr=False)
    altered: frozenset[str] = field(default=frozenset(), repr=False)
    """Changed paths that exist in the original image, too."""
    volumes: tuple[str, ...] = ()
    """The writable folders in the archive that are no part of the root."""
    own: bytes = field(default=b"", repr=False)
    """What the original image has in these folders, as an archive."""
    workdir: str = "/"
    owns_image: bool = True
    """Whether `image` is removed with this snapshot; False if another snapshot holds the same."""
    leftovers: tuple[str, ...] = ()
    """Paths of empty placeholder files that the image lacks, to be removed from each container started from the
    snapshot.
    """

    @property
    def has_writable_root(self) -> bool:
        """Whether the snapshot includes the container's root."""
        return self.image is not None

    async def restored(self, paths: Sequence[str]) -> "DockerSnapshot":
        """A copy of this snapshot in which these paths have the original image's files again.

        The engine cannot name a path that is not UTF-8: the folder that holds it is restored as a whole.

        Raises:
            SandboxFileError: a path that is not UTF-8 lies directly in `/` (`EILSEQ`).
            SandboxError: the copy cannot be made.
        """
        if self.image is None:
            raise SandboxError(f"the snapshot {self.id!r} is not of a writable root", retryable=False)
        whole = {_readable(path) for path in paths if _UNREADABLE in path}
        given = [*whole, *(path for path in paths if path not in whole)]
        altered = self.altered - whole
        apart = [path for path in given if any(f"{path}/".startswith(f"{each}/") for each in self.volumes)]
        around = [path for path in given if any(each.startswith(f"{path}/") for each in self.volumes)]
        found = self
        if apart or around:
            archive = await to_thread.run_sync(with_own, self.archive, self.own, [*apart, *around])
            found = replace(found, archive=archive, owns_image=False).without(apart)
        in_root = [path for path in given if path not in set(apart)]
        async with put_back(self.engine, self.origin, self.image, in_root, altered, self.workdir, self.run) as done:
            if done is None:
                return found
            container, restored, leftovers = done
            image = await _commit(self.engine, container, self.run, self.ttl_seconds)
        return replace(found, image=image, owns_image=True, leftovers=tuple(leftovers)).without(restored)

    def without(self, paths: Sequence[str]) -> "DockerSnapshot":
        """A copy that no longer lists these paths, and those below them, as changed."""
        gone = set(paths)
        left = [path for path in self.changed if path not in gone and gone.isdisjoint(folders_above([path]))]
        return replace(self, id=f"{self.id}-restored", changed=left)

    async def discard(self) -> None:
        """Free the snapshot's storage, at the latest when the last container started from it is gone; may be called
        repeatedly.
        """
        if self.image is not None and self.owns_image:
            self.discarded.add(self.image)  # first, as its last container may go while the engine is asked
            await self.free()

    async def free(self) -> None:
        """Remove the image if the snapshot was discarded; called again whenever a container of it is gone."""
        if self.image is None or self.image not in self.discarded:
            return
        with anyio.move_on_after(DISCARD_SECONDS, shield=True):
            try:
                await self.engine.call_again(self.engine.api.remove_image, self.image, force=True)
            except EngineError as error:
                if error.status != _NOT_FOUND:
                    return
            self.discarded.discard(self.image)


async def take_snapshot(
    engine: Engine,
    container: str,
    sandbox: Sandbox,
    image: Image,
    plan: Layout,
    seed: bytes,
    *,
    run: str,
    ttl_seconds: float,
    most_bytes: int,
    discarded: set[str],
) -> DockerSnapshot:
    """Stop a container's processes and save its files.

    Raises:
        SandboxFileError: more was written to its root than `most_bytes`, holes of sparse files included (`EDQUOT`),
            or files that the engine cannot pack, as with too long paths (`ENAMETOOLONG`).
        SandboxError: the sandbox failed, or its folders are larger than can be packed.
    """
    await sandbox.stop()
    folders, user = (plan.volumes, "root") if plan.has_writable_root else (plan.memory_folders, None)
    archive = await pack(sandbox, folders, user=user)
    name = f"{container}-{time.time_ns():x}"
    if not plan.has_writable_root:
        changed = await to_thread.run_sync(changes, archive, seed)
        return DockerSnapshot(name, changed, archive, None, engine, discarded, image, run, ttl_seconds)
    await _see_that_it_fits(engine, container, most_bytes)
    with _keepable():
        listed = await engine.call_again(engine.api.diff, container) or []
    found = await to_thread.run_sync(_paths, listed, plan)
    if not any(path.startswith(f"{plan.workdir}/") for path in found) and plan.workdir != "/":
        found += [] if await is_folder(engine, container, plan.workdir) else [plan.workdir]
    await _see_that_no_mark_hides(engine, image, found, run)
    altered = frozenset(str(change["Path"]) for change in listed if int(change["Kind"]) == _ALTERED)
    before = b""
    if plan.volumes:  # which the engine's list leaves out
        async with looked_into(engine, image, run) as fresh:
            before = await image_seed(engine, fresh, image, replace(plan, seeded=plan.volumes), MOST_BYTES)
        found = sorted({*found, *await to_thread.run_sync(changes, archive, before)})
    with _keepable():
        kept = await _commit(engine, container, run, ttl_seconds)
    taken = DockerSnapshot(name, found, archive, kept, engine, discarded, image, run, ttl_seconds, altered)
    return replace(taken, volumes=tuple(plan.volumes), own=before, workdir=plan.workdir)


@contextmanager
def _keepable() -> Generator[None]:
    """Turn the engine's errors about files that it cannot pack, which the agent made, into `SandboxFileError`."""
    try:
        yield
    except EngineError as error:
        if any(words in str(error) for words in _UNKEEPABLE):
            why = one_line(str(error).rpartition(":")[2], 100)
            message = f"no snapshot is taken of files that the engine cannot keep: {why}"
            raise SandboxFileError(message, "ENAMETOOLONG") from error
        raise


def _readable(path: str) -> str:
    """The folder that holds the first path component that is not UTF-8."""
    folder = path.partition(_UNREADABLE)[0].rpartition("/")[0]
    if not folder:
        raise SandboxFileError(f"{path!r} cannot be put back: a name in / is not UTF-8", "EILSEQ")
    return folder


async def _see_that_it_fits(engine: Engine, container: str, most_bytes: int) -> None:
    """Refuse to commit more than `most_bytes`; an engine copies the holes of sparse files byte by byte."""
    found = await engine.call_again(engine.api.containers, size=True, filters={"id": [container]})
    written = int(found[0].get("SizeRw") or 0) if found else 0
    if written > most_bytes:
        raise SandboxFileError(
            f"no snapshot is taken of {written:,} bytes written to the root, where {most_bytes:,} are allowed",
            "EDQUOT",
        )


async def _see_that_no_mark_hides(engine: Engine, image: Image, found: Sequence[str], run: str) -> None:
    """Refuse names that an engine takes for marks of removed files, where the image has such files."""
    hidden = {hides for path in found if (hides := _hidden_by(path)) is not None}
    if not hidden:
        return
    async with looked_into(engine, image, run) as fresh:
        for path in sorted(hidden):
            if await is_there(engine, fresh, path):
                message = f"no snapshot is taken of a name that begins with {_MARK!r}: it would remove {path!r}"
                raise SandboxFileError(message, "EILSEQ")


def _hidden_by(path: str) -> str | None:
    """The path that a layer's mark of a removed file hides; None if a path is no such mark."""
    folder, _, name = path.rpartition("/")
    if name == _MARK_OF_ALL:
        return folder or "/"
    return f"{folder}/{name.removeprefix(_MARK)}" if name.startswith(_MARK) and name != _MARK else None


async def _commit(engine: Engine, container: str, run: str, ttl_seconds: float) -> str:
    """Commit a container's root as an image; return the image's id."""
    marks = labels(this_process(), run, time.time() + ttl_seconds, "snapshot")
    wording = "\n".join(f'LABEL {key}="{value}"' for key, value in marks.items())
    # A commit that is not answered may still be made; the label's deadline then sees to it.
    made = await engine.call(engine.slow_api.commit, container, pause=True, changes=wording)
    return str(made.get("Id") or made["ID"])


def _paths(found: list[Json], plan: Layout) -> list[str]:
    """The changed paths, without the folders above them and without paths that the hub's own set-up changes."""
    own = {SUPERVISOR_FOLDER, plan.workdir, "/proc", "/sys", "/dev", "/etc/resolv.conf", "/etc/hosts", "/etc/hostname"}
    changed = {str(change["Path"]): int(change["Kind"]) for change in found}
    above = folders_above(changed)
    return sorted(
        path for path, kind in changed.items() if path not in own and not (kind == _ALTERED and path in above)
    )


def check_snapshot(snapshot: Snapshot, engine: Engine) -> DockerSnapshot:
    """Check that a snapshot was made by this engine's docker provider, and return it.

    Raises:
        SandboxError: it was not.
    """
    if not isinstance(snapshot, DockerSnapshot) or snapshot.engine is not engine:
        raise SandboxError(
            f"the snapshot {snapshot.id!r} was not made by this docker provider; "
            "open it with the provider that made it",
            retryable=False,
        )
    return snapshot


async def discard_snapshots(engine: Engine, run: str) -> None:
    """Remove all snapshot images of a run; images that cannot be removed are left to a later sweep."""
    filters = {"label": [f"{RUN}={run}"]}
    with suppress(EngineError):
        for image in await engine.call_again(engine.api.images, filters=filters):
            marks: dict[str, str] = image.get("Labels") or {}
            if marks.get(PURPOSE) == "snapshot":  # looked at here: Podman's filter takes one label
                with suppress(EngineError):
                    await engine.call_again(engine.api.remove_image, image["Id"], force=True)
