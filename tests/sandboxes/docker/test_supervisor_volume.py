"""The supervisor's volume: filled once, whoever else wants it at the same time or died half-way."""

import hashlib
import io
import secrets
import tarfile
import time
from collections.abc import AsyncGenerator

import anyio
import pytest

from rollouthub_sandboxes.docker.container_layout import Image, image_facts
from rollouthub_sandboxes.docker.supervisor_volume import supervisor_volume
from rollouthub_sandboxes.engine.engine import Engine
from rollouthub_sandboxes.engine.labels import labels, owner_of
from tests.sandboxes.podman import IMAGE


@pytest.fixture
async def image(engine: Engine) -> Image:
    """The base image."""
    return image_facts(await engine.call(engine.api.inspect_image, IMAGE), IMAGE)


@pytest.fixture
async def payload(engine: Engine) -> AsyncGenerator[bytes]:
    """A supervisor that nobody had before; its volume is removed afterwards."""
    data = secrets.token_bytes(300_000)
    yield data
    await engine.call(engine.api.remove_volume, name_of(data, engine))


def name_of(data: bytes, engine: Engine) -> str:
    """What a payload's volume is called."""
    return f"rollouthub-supervisor-{hashlib.sha256(data).hexdigest()[:16]}-{engine.architecture}"


async def content(engine: Engine, image: Image, volume: str) -> bytes:
    """The supervisor in a volume."""
    mounts = [{"Type": "volume", "Source": volume, "Target": "/v", "ReadOnly": True}]
    config = {"Image": image.id, "Cmd": ["true"], "HostConfig": {"NetworkMode": "none", "Mounts": mounts}}
    made = await engine.call(engine.api.create_container_from_config, config, None)
    try:
        stream, _ = await engine.call(engine.api.get_archive, made["Id"], "/v/supervisor")
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
            reader = archive.extractfile("supervisor")
            assert reader is not None
            return reader.read()
    finally:
        await engine.call(engine.api.remove_container, made["Id"], force=True)


async def test_several_who_want_it_at_once_get_it_whole(engine: Engine, image: Image, payload: bytes) -> None:
    volumes: list[str] = []

    async def want() -> None:
        volumes.append(await supervisor_volume(engine, image, payload))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(want)
    assert len(volumes) == 4
    assert len(set(volumes)) == 1
    assert await content(engine, image, volumes[0]) == payload


async def test_one_that_died_half_way_is_followed(engine: Engine, image: Image, payload: bytes) -> None:
    dead = await anyio.open_process(["sleep", "1000"])
    marks = labels(owner_of(dead.pid), "", time.time() + 1000, "fill")
    dead.kill()
    await dead.wait()
    name = name_of(payload, engine)
    mounts = [{"Type": "volume", "Source": name, "Target": "/.rollouthub"}]
    config = {"Image": image.id, "Cmd": ["true"], "Labels": marks, "HostConfig": {"Mounts": mounts}}
    made = await engine.call(engine.api.create_container_from_config, config, f"{name}-fill")
    half = io.BytesIO()
    with tarfile.open(fileobj=half, mode="w") as archive:
        entry = tarfile.TarInfo("supervisor")
        entry.size = 1000
        archive.addfile(entry, io.BytesIO(payload[:1000]))
    await engine.call_again(engine.api.put_archive, made["Id"], "/.rollouthub", half.getvalue())
    assert await supervisor_volume(engine, image, payload) == name
    assert await content(engine, image, name) == payload
