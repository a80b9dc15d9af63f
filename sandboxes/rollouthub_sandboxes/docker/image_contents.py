"""Reads an image's folders and users before a container of it is created."""

import io
import tarfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio

from rollouthub.errors import ConfigError
from rollouthub_sandboxes.docker.container_layout import Image, Layout, is_numeric
from rollouthub_sandboxes.docker.folder_archive import MOST_BYTES, clean, is_empty, joined, moved
from rollouthub_sandboxes.engine.engine import Engine, EngineError
from rollouthub_sandboxes.engine.labels import labels, this_process

_SECONDS = 300.0
_LINK = 1 << 27
"""The bit of a symbolic link in a file mode as the engines report it (Go's `FileMode`)."""
_NOT_FOUND, _GONE = 404, (404, 409)


@asynccontextmanager
async def looked_into(engine: Engine, image: Image, run: str) -> AsyncGenerator[str]:
    """A container of an image, created to read its files and never started; yields its id.

    Raises:
        EngineError: the container cannot be created.
    """
    name = f"rollouthub-{run}-look-{image.id[-12:]}-{time.time_ns():x}"
    config = {
        "Image": image.id,
        "Entrypoint": ["/none"],
        "WorkingDir": "/",  # the engine would make the image's own, which may be a file by now
        "Labels": labels(this_process(), run, time.time() + _SECONDS, "look"),
        "HostConfig": {"NetworkMode": "none", "LogConfig": {"Type": "none"}},
    }
    try:
        yield (await engine.call(engine.api.create_container_from_config, config, name))["Id"]
    finally:
        with anyio.move_on_after(30.0, shield=True):
            try:
                await engine.call_again(engine.api.remove_container, name, v=True, force=True)
            except EngineError as error:
                if error.status not in _GONE:
                    raise


async def with_owner(engine: Engine, container: str, image: Image, plan: Layout) -> Layout:
    """The layout with `owner` set to the ids of its first user; a user's name is looked up in the image.

    Raises:
        ConfigError: the image has no such user or group.
    """
    user, _, group = plan.first_user.partition(":")
    users, groups = {"root": ("0", "0")}, {"root": "0"}
    if not is_numeric(plan.first_user):
        users |= {line[0]: (line[2], line[3]) for line in await _database(engine, container, "/etc/passwd", 4)}
        groups |= {line[0]: line[2] for line in await _database(engine, container, "/etc/group", 3)}
    by_number = dict(users.values())
    uid, own_group = users.get(user, (user, by_number.get(user, "0")))
    gid = groups.get(group, group) if group else own_group
    if not (uid.isdecimal() and gid.isdecimal()):
        raise ConfigError(f"the image {image.name!r} has no user {plan.first_user!r}, as whom a sandbox is to run")
    return replace(plan, owner=(int(uid), int(gid)))


async def image_seed(engine: Engine, container: str, image: Image, plan: Layout, most_bytes: int) -> bytes:
    """An archive of the image's own files in the folders of a layout that start with them (`seeded`).

    Raises:
        ConfigError: the files are larger than the folders, or such a folder is a symbolic link.
    """
    packed = [await _packed(engine, container, folder, image, plan, most_bytes) for folder in plan.seeded]
    whole = joined(archive for archive in packed if archive)
    return b"" if is_empty(whole) else whole


async def _packed(engine: Engine, container: str, folder: str, image: Image, plan: Layout, most_bytes: int) -> bytes:
    most = min(most_bytes, MOST_BYTES)

    def read() -> bytes:
        stream, facts = engine.api.get_archive(container, folder)
        if int(facts.get("mode", 0)) & _LINK:
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
        return clean(bytes(kept), moved(folder, plan.memory_folders))

    try:
        return await engine.call(read)
    except EngineError as error:
        if error.status == _NOT_FOUND:
            return b""
        raise


async def _database(engine: Engine, container: str, path: str, fields: int) -> list[list[str]]:
    """The lines of a file such as `/etc/passwd`, split at colons; empty where the file does not exist."""

    def read() -> bytes:
        stream, _ = engine.api.get_archive(container, path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
            member = archive.next()
            reader = archive.extractfile(member) if member is not None and member.isreg() else None
            return reader.read() if reader else b""

    try:
        text = (await engine.call(read)).decode(errors="replace")
    except EngineError as error:
        if error.status != _NOT_FOUND:
            raise
        return []
    lines = [line.split(":") for line in text.splitlines()]
    return [line for line in lines if len(line) >= fields]
