"""Removes what dead hubs left on the engine (containers, snapshot images, networks), and nothing else."""

import time
from dataclasses import dataclass, field

import anyio

from rollouthub_sandboxes.docker.marked_resources import marked
from rollouthub_sandboxes.engine.api import Json
from rollouthub_sandboxes.engine.engine import Engine, EngineError
from rollouthub_sandboxes.engine.labels import Owner, is_leftover, marks_of, this_process

GONE = (404, 409)
"""HTTP statuses of the engine for a resource that is already removed, or being removed."""
REMOVE_SECONDS = 15.0
"""Seconds for one removal; a leftover that takes longer is left to a later sweep."""


@dataclass
class Swept:
    """What a sweep removed, and what it kept."""

    containers: list[str] = field(default_factory=list[str])
    """Names of the removed containers."""
    images: list[str] = field(default_factory=list[str])
    networks: list[str] = field(default_factory=list[str])
    kept: int = 0
    """Number of labelled resources kept, because their hub lives or may live."""
    problems: list[str] = field(default_factory=list[str])
    """Messages about resources that could not be removed."""


async def sweep(engine: Engine, *, now: float | None = None, here: Owner | None = None) -> Swept:
    """Remove the containers, snapshot images and networks whose owner is dead or whose deadline is over.

    Raises:
        EngineError: the engine cannot be asked.
    """
    swept, moment, me = Swept(), time.time() if now is None else now, here or this_process()
    containers = await marked(engine, engine.api.containers, all=True)
    images = await marked(engine, engine.api.images)
    networks = await marked(engine, engine.api.networks)

    def leftovers(found: list[Json]) -> list[Json]:
        dead = [thing for thing in found if is_leftover(marks_of(thing.get("Labels")), me, moment)]
        swept.kept += len(found) - len(dead)
        return dead

    async def remove(kind: list[str], name: str, thing: Json) -> None:
        try:
            with anyio.move_on_after(REMOVE_SECONDS):
                await _remove(engine, thing, kind is swept.containers, kind is swept.images)
                kind.append(name)
                return
            swept.problems.append(f"{engine.name} did not remove {name} within {REMOVE_SECONDS:g} s")
        except EngineError as error:
            if error.status not in GONE:
                swept.problems.append(str(error))

    async with anyio.create_task_group() as group:
        for container in leftovers(containers):
            group.start_soon(remove, swept.containers, _name(container), container)
    async with anyio.create_task_group() as group:
        for image in leftovers(images):
            group.start_soon(remove, swept.images, image["Id"], image)
        for network in leftovers(networks):
            group.start_soon(remove, swept.networks, network["Name"], network)
    return swept


async def _remove(engine: Engine, thing: Json, is_container: bool, is_image: bool) -> None:
    if is_container:
        await engine.call_again(engine.api.remove_container, thing["Id"], v=True, force=True)
    elif is_image:
        await engine.call_again(engine.api.remove_image, thing["Id"], force=True)
    else:
        await engine.call_again(engine.api.remove_network, thing["Id"])


def _name(container: Json) -> str:
    names: list[str] = container.get("Names") or [container["Id"][:12]]
    return names[0].lstrip("/")
