"""Asks the engine whether a container is at its resource limits when it does not respond."""

import time
from collections.abc import Mapping
from typing import cast

import anyio

from rollouthub.errors import SandboxError, SandboxOverrun
from rollouthub.sandbox import Resources
from rollouthub_sandboxes.engine.api import Json
from rollouthub_sandboxes.engine.engine import Engine, EngineError

ASK_SECONDS = 5.0
RECENT_SECONDS = 60
"""Seconds for which an out-of-memory event still counts as the reason why a container does not respond."""
FULL_MEMORY, FULL_PROCESSES = 0.9, 0.5
"""Shares of the memory and process limits from which on they count as used up."""
_FILES = ("total_inactive_file", "total_active_file"), ("inactive_file", "active_file")
"""Names of file cache, which the kernel can take back, in the memory statistics of cgroups v1 and v2."""


async def blamed(engine: Engine, container: str, resources: Resources, reason: str) -> SandboxError:
    """The error for a container that does not respond, or whose programs cannot be killed.

    A `SandboxOverrun` if the engine reports that its programs used up its memory or processes; else a plain
    `SandboxError`. Takes five seconds at most, also when cancelled.
    """
    with anyio.move_on_after(ASK_SECONDS, shield=True):
        try:
            if used_up := await _used_up(engine, container, resources):
                return SandboxOverrun(f"{reason}: what ran in it used up its {used_up}")
        except EngineError as error:
            return SandboxError(f"{reason}, and whether it is at its bounds cannot be told: {error}")
    return SandboxError(reason)


async def _used_up(engine: Engine, container: str, resources: Resources) -> str | None:
    stats = await engine.call_again(engine.api.stats, container, stream=False)
    processes = int(stats.get("pids_stats", {}).get("current") or 0)
    if _held_memory(stats.get("memory_stats") or {}) >= FULL_MEMORY * resources.memory_bytes:
        return "memory"
    if processes >= FULL_PROCESSES * resources.pids:
        return "processes"

    def wants() -> list[Json]:
        until = int(time.time()) + 1
        filters = {"container": [container], "event": ["oom"]}
        return list(engine.api.events(since=until - RECENT_SECONDS, until=until, filters=filters, decode=True))

    return "memory" if await engine.call_again(wants) else None


def _held_memory(told: Mapping[str, object]) -> int:
    """Bytes of memory that the container's programs hold, without file cache."""
    kinds = cast("Mapping[str, int]", told.get("stats") or {})
    names = next((names for names in _FILES if names[0] in kinds), ())
    return int(cast("int", told.get("usage") or 0)) - sum(kinds.get(name, 0) for name in names)
