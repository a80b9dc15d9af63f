"""Short names for opening a supply of a small world."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

import rollouthub
from rollouthub import RolloutGroup, Supply
from rollouthub.models.credentials import Credentials

WORLD = Path(__file__).with_name("world.py")


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    """Those of a supply of the small world; `world` are the world's own."""
    chosen: dict[str, Any] = {
        "environments": (str(WORLD),),
        "model": "mock/say?text=done",
        "repeats": 4,
        "batch": 2,
        "concurrency": 8,
        "seed": 1,
        "set": more.pop("world", {}),
        "directory": folder / "run",
        "credentials": Credentials({}),
        "retries": {"infrastructure": 0},
    }
    return chosen | more


@asynccontextmanager
async def supplied(folder: Path, **more: Any) -> AsyncGenerator[Supply[RolloutGroup]]:
    """A supply of groups, for a minute at most."""
    with anyio.fail_after(60):
        async with rollouthub.stream_rollouts(groups=True, **settings(folder, **more)) as supply:
            yield supply


async def asking(supply: Supply[RolloutGroup]) -> None:
    """Wait until units are begun, and all of their samples that may play ask a model that takes its time."""
    while not supply.stats.in_flight:
        await anyio.wait_all_tasks_blocked()
    await anyio.wait_all_tasks_blocked()


async def all_of(supply: Supply[RolloutGroup]) -> list[RolloutGroup]:
    """What is left to be handed out."""
    return [group async for group in supply]
