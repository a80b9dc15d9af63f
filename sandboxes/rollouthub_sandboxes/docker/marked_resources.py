"""Containers, images and volumes with a hub's label, the current or the former one."""

from collections.abc import Callable
from typing import Any

from rollouthub_sandboxes.engine.api import Json
from rollouthub_sandboxes.engine.engine import Engine
from rollouthub_sandboxes.engine.labels import MARK, OLD_MARK


async def marked(engine: Engine, listing: Callable[..., list[Json]], **more: Any) -> list[Json]:
    """The entries of one engine listing that carry either of the hub's labels, each once.

    Raises:
        EngineError: the engine cannot be asked.
    """
    found: dict[str, Json] = {}
    for mark in (MARK, OLD_MARK):
        things = await engine.call_again(listing, filters={"label": [f"{mark}=1"]}, **more)
        found |= {str(thing["Id"]): thing for thing in things}
    return list(found.values())
