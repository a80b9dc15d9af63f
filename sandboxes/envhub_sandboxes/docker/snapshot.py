"""The files of a container at one moment: an image of its root where that is writable, and its other folders packed."""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import anyio
from anyio import to_thread

from envhub.errors import SandboxError
from envhub.sandbox import Sandbox
from envhub_sandboxes.docker.api import Json
from envhub_sandboxes.docker.engine import Engine, EngineError
from envhub_sandboxes.docker.folders import changes, pack
from envhub_sandboxes.docker.labels import PURPOSE, RUN, labels, this_process
from envhub_sandboxes.docker.layout import SUPERVISOR_FOLDER, Layout

DISCARD_SECONDS = 30.0
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

    @property
    def has_writable_root(self) -> bool:
        """Whether its root is part of it."""
        return self.image is not None

    async def discard(self) -> None:
        """Give its storage back; idempotent."""
        if self.image is None:
            return
        with anyio.move_on_after(DISCARD_SECONDS, shield=True), suppress(EngineError):
            await self.engine.call_again(self.engine.api.remove_image, self.image, force=True)


async def take_snapshot(
    engine: Engine, container: str, sandbox: Sandbox, plan: Layout, seed: bytes, *, run: str, ttl_seconds: float
) -> DockerSnapshot:
    """Stop a container's processes and keep its files.

    Raises:
        SandboxError: it broke, or its files are more than can be kept.
    """
    await sandbox.stop()
    folders, user = (plan.volumes, "root") if plan.has_writable_root else (plan.memory_folders, None)
    archive = await pack(sandbox, folders, user=user)
    name = f"{container}-{time.time_ns():x}"
    if not plan.has_writable_root:
        changed = await to_thread.run_sync(changes, archive, seed)
        return DockerSnapshot(name, changed, archive, None, engine)
    found = await engine.call_again(engine.api.diff, container) or []
    marks = labels(this_process(), run, time.time() + ttl_seconds, "snapshot")
    wording = "\n".join(f'LABEL {key}="{value}"' for key, value in marks.items())
    # A commit that is not answered may still be made; the label's deadline then sees to it.
    made = await engine.call(engine.slow_api.commit, container, pause=True, changes=wording)
    return DockerSnapshot(name, _paths(found, plan), archive, made.get("Id") or made["ID"], engine)


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
