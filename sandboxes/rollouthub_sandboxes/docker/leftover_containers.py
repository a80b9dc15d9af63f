"""Removes a run's own containers whose removal failed because the engine was away."""

import logging
from collections.abc import Collection

import anyio

from rollouthub_sandboxes.docker.container_creation import remove
from rollouthub_sandboxes.engine.engine import Engine, EngineError
from rollouthub_sandboxes.engine.labels import PURPOSE, RUN

logger = logging.getLogger(__name__)


async def remove_strays(engine: Engine, run: str, held: Collection[str] | None = None) -> None:
    """Remove the run's sandboxes whose names are not in `held`; without `held`, all containers of the run."""
    wanted = [f"{RUN}={run}"] if held is None else [f"{RUN}={run}", f"{PURPOSE}=sandbox"]
    try:
        found = await engine.call_again(engine.api.containers, all=True, filters={"label": wanted})
    except EngineError as error:
        logger.warning("containers that may be left of this run could not be looked for: %s", error)
        return
    names = {str(container["Names"][0]).lstrip("/") for container in found if container.get("Names")}
    async with anyio.create_task_group() as group:
        for name in names - set(held or ()):
            group.start_soon(remove, engine, name)
