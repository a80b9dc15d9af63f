"""The images that hubs built on this engine: lists them, counts their containers, and removes unused ones."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from rollouthub_sandboxes.engine.api import Json, given_names
from rollouthub_sandboxes.engine.engine import Engine, EngineError
from rollouthub_sandboxes.engine.labels import PID
from rollouthub_sandboxes.images.build_lock import forget_use, image_lock, last_use
from rollouthub_sandboxes.images.provision import ABOUT, BASE_NAME

_FILTER = {"label": [ABOUT]}
_NOT_THERE, _IN_USE = 404, 409


@dataclass(frozen=True, slots=True)
class OwnImage:
    """An image that a hub built."""

    name: str
    """Its name, which ends in the hash of its content; the engine's id if that name was removed."""
    digest: str
    kind: Literal["base", "build"]
    content: str
    source: str
    """Path of the folder it was built from."""
    replaced: dict[str, str]
    """Base images that others were used for: the name in the Dockerfile, and the name used."""
    built_at: float
    used_at: float
    """When it was last asked for, in seconds since 1970, as far as this machine knows; else when it was built."""
    bytes: int
    """Its size in bytes, with layers that it shares with other images."""
    containers: int
    """Number of containers made from it, running or not."""
    given_names: tuple[str, ...]
    """Names given with `--tag`; an image that has one is not pruned."""


@dataclass
class Pruned:
    """The images that were removed (with `dry_run`: would be), and how many were kept."""

    removed: list[OwnImage] = field(default_factory=list[OwnImage])
    kept: int = 0
    problems: list[str] = field(default_factory=list[str])


async def own_images(engine: Engine, cache: Path) -> list[OwnImage]:
    """The images that hubs built on an engine, the last used first, without snapshots of sandboxes.

    Raises:
        EngineError: the engine cannot be asked.
    """
    images = await engine.call_again(engine.api.images, filters=_FILTER)
    containers = await engine.call_again(engine.api.containers, all=True)
    users = [str(container.get("ImageID")) for container in containers]
    own = [_own(image, users, cache) for image in images if PID not in (image.get("Labels") or {})]
    return sorted(own, key=lambda image: -image.used_at)


async def prune(
    engine: Engine, cache: Path, *, unused_seconds: float, dry_run: bool = False, now: float | None = None
) -> Pruned:
    """Remove images built by hubs and unused for `unused_seconds`; those with containers or a given name are kept.

    Raises:
        EngineError: the engine cannot be asked.
    """
    pruned, moment = Pruned(), time.time() if now is None else now
    for image in await own_images(engine, cache):
        if image.containers or image.given_names or moment - image.used_at < unused_seconds:
            pruned.kept += 1
        elif dry_run:
            pruned.removed.append(image)
        else:
            await _remove(engine, cache, image, pruned)
    return pruned


async def _remove(engine: Engine, cache: Path, image: OwnImage, pruned: Pruned) -> None:
    async with image_lock(cache, image.content):
        if (last_use(cache, image.content) or image.built_at) > image.used_at:
            pruned.kept += 1  # somebody asked for it meanwhile
            return
        try:
            await engine.call(engine.api.remove_image, image.name)
        except EngineError as error:
            if error.status == _IN_USE:
                pruned.kept += 1
                return
            if error.status != _NOT_THERE:
                pruned.problems.append(str(error))
                return
        forget_use(cache, image.content)
        pruned.removed.append(image)


def _own(image: Json, users: list[str], cache: Path) -> OwnImage:
    about = cast("dict[str, Any]", json.loads(image["Labels"][ABOUT]))
    names = given_names(image)
    content, digest = str(about["content"]), str(image["Id"])
    ours = [name for name in names if name.rpartition(":")[2] == content]
    kind = "base" if any(BASE_NAME in name for name in ours) else "build"
    built_at = float(about["built"])
    return OwnImage(
        name=ours[0] if ours else digest,
        digest=digest,
        kind=kind,
        content=content,
        source=str(about["source"]),
        replaced=dict(about["replaced"]),
        built_at=built_at,
        used_at=last_use(cache, content) or built_at,
        bytes=int(image.get("Size") or 0),
        containers=sum(user == digest for user in users),
        given_names=tuple(name for name in names if name not in ours),
    )
