"""The hubs' containers on an engine: their owners, and lookup by part of a name."""

import difflib
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from rollouthub.errors import UsageError
from rollouthub_sandboxes.docker.marked_resources import marked
from rollouthub_sandboxes.engine.api import given_names
from rollouthub_sandboxes.engine.engine import Engine
from rollouthub_sandboxes.engine.labels import (
    BOOT,
    DEADLINE,
    NAMESPACE,
    PID,
    PURPOSE,
    RUN,
    STARTED,
    is_leftover,
    marks_of,
    start_of,
    this_process,
)


@dataclass(frozen=True, slots=True)
class LiveContainer:
    """A container that a hub created."""

    id: str
    name: str
    image: str
    state: str
    """The engine's word: `created`, `running`, `paused`, `exited` or `dead`."""
    purpose: str
    run: str
    owner_pid: int
    owner_alive: bool | None
    """Whether the hub that created it still runs; None if that hub is on another machine or in another pid
    namespace.
    """
    is_leftover: bool
    """Whether a sweep would remove it."""
    created_at: float
    deadline: float


async def live_containers(engine: Engine, now: float | None = None) -> list[LiveContainer]:
    """Every container with a hub's labels, the newest first.

    Raises:
        EngineError: the engine cannot be asked.
    """
    moment, here = time.time() if now is None else now, this_process()
    found: list[LiveContainer] = []
    names_of = await _image_names(engine)
    for container in await marked(engine, engine.api.containers, all=True):
        marks = marks_of(container.get("Labels"))
        pid = marks.get(PID, "")
        if not pid.isdecimal():
            continue  # somebody's own container of an image that a hub built
        is_here = (marks.get(BOOT), marks.get(NAMESPACE)) == (here.boot, here.namespace)
        names = cast("list[str]", container.get("Names") or [])
        leftover = is_leftover(marks, here, moment)
        found.append(
            LiveContainer(
                id=str(container["Id"]),
                name=names[0].lstrip("/") if names else "",
                image=names_of.get(str(container.get("ImageID")), str(container.get("Image"))[:19]),
                state=str(container.get("State")),
                purpose=marks.get(PURPOSE, ""),
                run=marks.get(RUN, ""),
                owner_pid=int(pid),
                owner_alive=_is_alive(marks) if is_here else None,
                is_leftover=leftover,
                created_at=_seconds(container.get("Created")),
                deadline=float(marks.get(DEADLINE, "0")),
            )
        )
    return sorted(found, key=lambda container: -container.created_at)


async def find_container(engine: Engine, wanted: str) -> LiveContainer:
    """The one running container with this id or name, or whose id or name begins so.

    Raises:
        UsageError: no running container matches, or several do.
        EngineError: the engine cannot be asked.
    """
    running = [container for container in await live_containers(engine) if container.state == "running"]
    return pick(running, wanted)


async def command_user(engine: Engine, container: str) -> str:
    """The user that a container's supervisor runs commands as, from its arguments; empty where there is no supervisor.

    Raises:
        EngineError: the engine cannot be asked.
    """
    inspected = await engine.call_again(engine.api.inspect_container, container)
    orders = cast("list[str]", inspected["Config"].get("Cmd") or [])
    return next((user for name, user in itertools.pairwise(orders) if name == "--as"), "")


def pick(containers: Sequence[LiveContainer], wanted: str) -> LiveContainer:
    """The one container with this id or name, or whose id or name begins so.

    Raises:
        UsageError: no container matches, or several do.
    """
    exact = [one for one in containers if wanted in (one.id, one.name)]
    meant = exact or [one for one in containers if wanted and _begins(one, wanted)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        names = ", ".join(one.name for one in meant[:6])
        raise UsageError(f"{wanted!r} may mean {len(meant)} sandboxes: {names}; give more of its name")
    known = [one.name for one in containers]
    close = difflib.get_close_matches(wanted, known + [one.id[:12] for one in containers], n=2, cutoff=0.5)
    if close:
        raise UsageError(f"no sandbox is named {wanted!r}; did you mean {' or '.join(map(repr, close))}?")
    shown = f"; running: {', '.join(known[:8])}" if known else "; none is running"
    raise UsageError(f"no sandbox is named {wanted!r}{shown}")


async def _image_names(engine: Engine) -> dict[str, str]:
    """The first name of each image, by its digest; images without a name are left out."""
    images = await engine.call_again(engine.api.images)
    named = [(str(image["Id"]), given_names(image)) for image in images]
    return {digest: names[0] for digest, names in named if names}


def _begins(container: LiveContainer, wanted: str) -> bool:
    return container.id.startswith(wanted) or container.name.startswith(wanted)


def _is_alive(marks: dict[str, str]) -> bool:
    return start_of(int(marks[PID])) == marks.get(STARTED)


def _seconds(created: Any) -> float:
    """A creation time in seconds since 1970; Docker gives a number, Podman a text."""
    if isinstance(created, int | float):
        return float(created)
    try:
        return datetime.fromisoformat(str(created)).timestamp()
    except ValueError:
        return 0.0
