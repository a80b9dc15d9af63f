"""What an image has in folders that are kept in memory, where it would else be hidden."""

import time

import anyio

from envhub.errors import ConfigError
from envhub_sandboxes.docker.engine import Engine, EngineError
from envhub_sandboxes.docker.folders import MOST_BYTES, clean, is_empty, joined, moved
from envhub_sandboxes.docker.labels import labels, this_process
from envhub_sandboxes.docker.layout import Image, Layout

_SECONDS = 300.0


async def image_seed(engine: Engine, image: Image, plan: Layout, run: str, most_bytes: int) -> bytes:
    """The image's own files below the folders of a layout that are to start with them, packed.

    Raises:
        ConfigError: they are more than the folders can hold.
        SandboxError: the image cannot be read.
    """
    if not plan.seeded:
        return b""
    name = f"envhub-{run}-seed-{image.id[-12:]}-{time.time_ns():x}"
    config = {
        "Image": image.id,
        "Entrypoint": ["/none"],
        "Labels": labels(this_process(), run, time.time() + _SECONDS, "seed"),
        "HostConfig": {"NetworkMode": "none", "LogConfig": {"Type": "none"}},
    }
    try:
        made = await engine.call(engine.api.create_container_from_config, config, name)
        packed = [await _packed(engine, made["Id"], folder, image, most_bytes) for folder in plan.seeded]
    finally:
        with anyio.move_on_after(30.0, shield=True):
            await _remove(engine, name)
    whole = joined(archive for archive in packed if archive)
    return b"" if is_empty(whole) else whole


async def _packed(engine: Engine, container: str, folder: str, image: Image, most_bytes: int) -> bytes:
    most = min(most_bytes, MOST_BYTES)

    def read() -> bytes:
        stream, facts = engine.api.get_archive(container, folder)
        if facts.get("linkTarget"):
            raise ConfigError(
                f"{folder} of the image {image.name!r} is a link to {facts['linkTarget']!r}, which cannot be a "
                "writable folder; name another workdir, or ask for has_writable_root"
            )
        kept = bytearray()
        for piece in stream:
            kept += piece
            if len(kept) > most + (1 << 20):
                raise ConfigError(
                    f"the image {image.name!r} has more than {most:,} bytes in {folder}, which is kept in memory "
                    "on a read-only root; give the sandbox more disk_bytes, or has_writable_root"
                )
        return clean(bytes(kept), moved(folder))

    try:
        return await engine.call(read)
    except EngineError as error:
        if error.status == 404:
            return b""
        raise


async def _remove(engine: Engine, name: str) -> None:
    try:
        await engine.call_again(engine.api.remove_container, name, v=True, force=True)
    except EngineError as error:
        if error.status not in (404, 409):
            raise
