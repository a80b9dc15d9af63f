"""Enforces the size of writable roots by measuring them, where the engine's storage has no quota."""

import logging
from collections.abc import Mapping
from typing import Protocol

import anyio

from rollouthub.errors import SandboxOverrun
from rollouthub_sandboxes.docker.container_exit import ContainerStream
from rollouthub_sandboxes.engine.engine import Engine, EngineError
from rollouthub_sandboxes.engine.labels import RUN

LOOK_SECONDS = 5.0
logger = logging.getLogger(__name__)


class Measured(Protocol):
    """A container whose root is to be measured."""

    @property
    def stream(self) -> ContainerStream: ...
    @property
    def most_root_bytes(self) -> int | None:
        """Bytes that may be written to its root; None where the root is read-only or the engine enforces a quota."""
        ...


async def watch_disks(engine: Engine, run: str, live: Mapping[str, Measured], seconds: float = LOOK_SECONDS) -> None:
    """Every `seconds`, end containers that have written more to their root than they may; never returns."""
    while True:
        await anyio.sleep(seconds)
        if any(box.most_root_bytes is not None for box in live.values()):
            try:
                await _look(engine, run, live)
            except EngineError as error:
                logger.warning("the roots of containers could not be measured: %s", error)


async def _look(engine: Engine, run: str, live: Mapping[str, Measured]) -> None:
    listed = await engine.call(engine.api.containers, size=True, filters={"label": [f"{RUN}={run}"]})
    for container in listed:
        box = live.get(str(container["Names"][0]).lstrip("/"))
        most, written = box.most_root_bytes if box else None, int(container.get("SizeRw") or 0)
        if box is not None and most is not None and written > most:
            box.stream.ended = SandboxOverrun(
                f"the sandbox is gone: it wrote {written:,} bytes to its root, where {most:,} were allowed"
            )
            await engine.call_again(engine.api.kill, container["Id"])
