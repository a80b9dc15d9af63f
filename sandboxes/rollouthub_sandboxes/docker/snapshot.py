"""The files of a container at one moment: an image of its root where that is writable, and its other folders packed."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

import anyio
from anyio import to_thread

from rollouthub.errors import SandboxError
from rollouthub.sandbox import Sandbox, SandboxFileError
from rollouthub_sandboxes.docker.api import Json
from rollouthub_sandboxes.docker.container_layout import SUPERVISOR_FOLDER, Image, Layout
from rollouthub_sandboxes.docker.engine import Engine, EngineError
from rollouthub_sandboxes.docker.folder_archive import MOST_BYTES, changes, pack
from rollouthub_sandboxes.docker.image_contents import image_seed, looked_into
from rollouthub_sandboxes.docker.image_paths import put_back
from rollouthub_sandboxes.docker.labels import PURPOSE, RUN, labels, this_process

DISCARD_SECONDS = 30.0
_NOT_FOUND = 404
_ALTERED = 0
"""The engine's kind of a change to what was there; 1 is added, 2 removed."""


@dataclass(frozen=True)
class DockerSnapshot:
    """A snapshot that this provider's engine keeps until it is discarded, its provider ends, or its deadline comes."""

    id: str
    changed: Sequence[str]
    archive: bytes = field(repr=False)
    """The folders that are no part of the root."""
    image: str | None
    """The committed root, where it is writable."""
    engine: Engine = field(repr=False)
    discarded: set[str] = field(repr=False)
    """Images of its provider's that are no longer wanted and not gone yet; an engine keeps one that is in use."""
    origin: Image = field(repr=False)
    """What its container was made of."""
    run: str = field(repr=False)
    ttl_seconds: float = field(repr=False)
    altered: frozenset[str] = field(default=frozenset(), repr=False)
    """Those of the changed paths that the image has, too."""
    leftovers: tuple[str, ...] = ()
    """Empty files where the image has nothing, to be removed from each container that starts from it."""

    @property
    def has_writable_root(self) -> bool:
        """Whether its root is part of it."""
        return self.image is not None

    async def restored(self, paths: Sequence[str]) -> "DockerSnapshot":
        """A copy of this snapshot that has the original image's files at these paths.

        Raises:
            SandboxError: the copy cannot be made.
        """
        if self.image is None:
            raise SandboxError(f"the snapshot {self.id!r} is not of a writable root", retryable=False)
        async with put_back(self.engine, self.origin, self.image, paths, self.altered, self.run) as done:
            if done is None:
                return self
            container, restored, leftovers = done
            image = await _commit(self.engine, container, self.run, self.ttl_seconds)
        gone = tuple(f"{path}/" for path in restored)
        left = [path for path in self.changed if path not in restored and not path.startswith(gone)]
        return replace(self, id=f"{self.id}-restored", image=image, changed=left, leftovers=tuple(leftovers))

    async def discard(self) -> None:
        """Give its storage back, or have it given back with the last container that was started from it; idempotent."""
        if self.image is not None:
            self.discarded.add(self.image)  # first, as its last container may go while the engine is asked
            await self.free()

    async def free(self) -> None:
        """Remove its image if it was discarded; to be called when a container of it is gone, too."""
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
    """Stop a container's processes and keep its files.

    Raises:
        SandboxFileError: more was written to its root than `most_bytes`, holes of sparse files included (`EDQUOT`).
        SandboxError: it broke, or its files are more than can be kept.
    """
    await sandbox.stop()
    folders, user = (plan.volumes, "root") if plan.has_writable_root else (plan.memory_folders, None)
    archive = await pack(sandbox, folders, user=user)
    name = f"{container}-{time.time_ns():x}"
    if not plan.has_writable_root:
        changed = await to_thread.run_sync(changes, archive, seed)
        return DockerSnapshot(name, changed, archive, None, engine, discarded, image, run, ttl_seconds)
    await _see_that_it_fits(engine, container, most_bytes)
    listed = await engine.call_again(engine.api.diff, container) or []
    found = _paths(listed, plan)
    altered = frozenset(str(change["Path"]) for change in listed if int(change["Kind"]) == _ALTERED)
    if plan.volumes:  # which the engine's list leaves out
        async with looked_into(engine, image, run) as fresh:
            before = await image_seed(engine, fresh, image, replace(plan, seeded=plan.volumes), MOST_BYTES)
        found = sorted({*found, *await to_thread.run_sync(changes, archive, before)})
    kept = await _commit(engine, container, run, ttl_seconds)
    return DockerSnapshot(name, found, archive, kept, engine, discarded, image, run, ttl_seconds, altered)


async def _see_that_it_fits(engine: Engine, container: str, most_bytes: int) -> None:
    """An engine copies a hole of terabytes byte by byte."""
    found = await engine.call_again(engine.api.containers, size=True, filters={"id": [container]})
    written = int(found[0].get("SizeRw") or 0) if found else 0
    if written > most_bytes:
        raise SandboxFileError(
            f"no snapshot is taken of {written:,} bytes written to the root, where {most_bytes:,} are allowed",
            "EDQUOT",
        )


async def _commit(engine: Engine, container: str, run: str, ttl_seconds: float) -> str:
    """An image of a container's root."""
    marks = labels(this_process(), run, time.time() + ttl_seconds, "snapshot")
    wording = "\n".join(f'LABEL {key}="{value}"' for key, value in marks.items())
    # A commit that is not answered may still be made; the label's deadline then sees to it.
    made = await engine.call(engine.slow_api.commit, container, pause=True, changes=wording)
    return str(made.get("Id") or made["ID"])


def _paths(found: list[Json], plan: Layout) -> list[str]:
    """Paths that were changed, without the folders above them and without what the walls themselves make."""
    own = {SUPERVISOR_FOLDER, plan.workdir, "/proc", "/sys", "/dev", "/etc/resolv.conf", "/etc/hosts", "/etc/hostname"}
    changed = {str(change["Path"]): int(change["Kind"]) for change in found}
    above = {str(parent) for path in changed for parent in PurePosixPath(path).parents}
    return sorted(
        path for path, kind in changed.items() if path not in own and not (kind == _ALTERED and path in above)
    )


def check_snapshot(snapshot: object, engine: Engine) -> DockerSnapshot:
    """See that a snapshot is one of this engine's.

    Raises:
        SandboxError: it is not.
    """
    if not isinstance(snapshot, DockerSnapshot) or snapshot.engine is not engine:
        raise SandboxError(
            f"the snapshot {getattr(snapshot, 'id', snapshot)!r} was not made by this docker provider; "
            "open it with the provider that made it",
            retryable=False,
        )
    return snapshot


async def discard_snapshots(engine: Engine, run: str) -> None:
    """Remove all that a run has kept; what cannot be removed is left to a later sweep."""
    filters = {"label": [f"{RUN}={run}"]}
    with suppress(EngineError):
        for image in await engine.call_again(engine.api.images, filters=filters):
            marks: dict[str, str] = image.get("Labels") or {}
            if marks.get(PURPOSE) == "snapshot":  # looked at here: Podman's filter takes one label
                with suppress(EngineError):
                    await engine.call_again(engine.api.remove_image, image["Id"], force=True)
