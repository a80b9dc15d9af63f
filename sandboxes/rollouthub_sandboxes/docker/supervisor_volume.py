"""Stores the supervisor's program in a volume that every container mounts read-only."""

import hashlib
import io
import tarfile
import time
from contextlib import suppress

import anyio

from rollouthub.errors import SandboxError
from rollouthub_sandboxes.docker.container_layout import SUPERVISOR_FOLDER, Image
from rollouthub_sandboxes.engine.api import Json
from rollouthub_sandboxes.engine.engine import Engine, EngineError
from rollouthub_sandboxes.engine.labels import MARK, PURPOSE, is_leftover, labels, this_process

FILL_SECONDS, STALE_SECONDS = 60.0, 90.0
"""Seconds that filling a volume may take; seconds after which another hub's filling counts as abandoned."""
NAME_TAKEN, NOT_FOUND = 409, 404
_FULL = "complete"
"""Name of the file written last: without it the volume is only partly filled."""


async def supervisor_volume(engine: Engine, image: Image, payload: bytes) -> str:
    """The name of the volume with this supervisor in it; created and filled if need be.

    The hub that fills it holds a container of a fixed name, which works as a lock across all hubs of the engine; the
    container of a hub that died half-way is removed, and another hub fills the volume.

    Raises:
        SandboxError: the volume could not be created or filled in time.
    """
    volume = f"rollouthub-supervisor-{hashlib.sha256(payload).hexdigest()[:16]}-{engine.architecture}"
    try:
        with anyio.fail_after(FILL_SECONDS + STALE_SECONDS):
            await _make(engine, volume)
            while not await _filled(engine, volume, image, payload):  # noqa: ASYNC110  # nothing tells us
                await anyio.sleep(0.1)
    except TimeoutError as error:
        raise SandboxError(
            f"the volume {volume} could not be filled within {FILL_SECONDS + STALE_SECONDS:g} s; "
            f"is there a container {volume}-fill that is never removed?"
        ) from error
    return volume


async def _make(engine: Engine, volume: str) -> None:
    marks = {MARK: "1", PURPOSE: "supervisor"}
    try:
        await engine.call_again(engine.api.create_volume, volume, labels=marks)
    except EngineError as error:
        if error.status not in (NAME_TAKEN, 500):
            raise
        await engine.call_again(engine.api.inspect_volume, volume)


async def _filled(engine: Engine, volume: str, image: Image, payload: bytes) -> bool:
    """Take the lock (the filler container) and fill the volume if it is not full; False where another hub holds the
    lock.
    """
    filler = f"{volume}-fill"
    mount: Json = {"Type": "volume", "Source": volume, "Target": SUPERVISOR_FOLDER}
    config: Json = {
        "Image": image.id,
        "Entrypoint": [f"{SUPERVISOR_FOLDER}/supervisor"],
        "Labels": labels(this_process(), "", time.time() + STALE_SECONDS, "fill"),
        "NetworkDisabled": True,
        "HostConfig": {
            "NetworkMode": "none",
            "Mounts": [mount | {"VolumeOptions": {"NoCopy": True}}],
            "LogConfig": {"Type": "none"},
        },
    }
    try:
        made = await engine.call(engine.api.create_container_from_config, config, filler)
    except EngineError as error:
        # Podman answers 500 where Docker answers 409.
        if error.status != NAME_TAKEN and "already in use" not in str(error):
            raise
        await _remove_stale(engine, filler)
        return False
    try:
        if not await _is_full(engine, made["Id"]):
            for name, data in (("supervisor", payload), (_FULL, b"1\n")):
                await engine.call_again(engine.api.put_archive, made["Id"], SUPERVISOR_FOLDER, _archive(name, data))
    finally:
        with anyio.CancelScope(shield=True):
            await engine.call_again(engine.api.remove_container, made["Id"], v=True, force=True)
    return True


async def _is_full(engine: Engine, container: str) -> bool:
    try:
        stream, _ = await engine.call(engine.api.get_archive, container, f"{SUPERVISOR_FOLDER}/{_FULL}")
    except EngineError as error:
        if error.status == NOT_FOUND or "no such file" in str(error).lower():
            return False
        raise
    await engine.call(b"".join, stream)
    return True


async def _remove_stale(engine: Engine, filler: str) -> None:
    with suppress(EngineError):
        found = await engine.call(engine.api.inspect_container, filler)
        if is_leftover(found["Config"].get("Labels") or {}, this_process()):
            await engine.call(engine.api.remove_container, found["Id"], v=True, force=True)


def _archive(name: str, data: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(data), 0o755
        archive.addfile(entry, io.BytesIO(data))
    return target.getvalue()
