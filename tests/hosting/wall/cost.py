"""What the wall costs: CPU milliseconds of a tool call, and seconds until a server is up, beside a plain process.

`python -m tests.hosting.wall.cost [ROUNDS]` measures by turns and prints a table; CPU is of the hub's process and the
server's together.
"""

import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import anyio

from rollouthub.errors import ConfigError
from rollouthub.hosting.wall.wall import Wall, WallChoice, open_wall
from rollouthub.protocols import Episode
from tests.hosting.wall.evil import World, install_evil

CALLS = 1_000
CHOICES: tuple[WallChoice, ...] = ("none", "bubblewrap", "container")


async def cpu_milliseconds(episode: Episode) -> float:
    """CPU milliseconds of one call, over many."""
    (seat,) = episode.seats.values()

    async def spent() -> float:
        (block,) = (await seat.call_tool("spent", {})).content
        return float(getattr(block, "text", "nan").strip("'\"")) + time.process_time()

    for _ in range(100):
        await spent()
    before = await spent()
    for _ in range(CALLS):
        await seat.call_tool("spent", {})
    return 1000 * (await spent() - before) / CALLS


async def one_round(world: World, walls: dict[WallChoice, Wall | None], calls: dict[str, list[float]]) -> None:
    """Measure each kind once."""
    for choice, wall in walls.items():
        began = time.monotonic()
        async with world.episode(wall, {}) as episode:
            calls[f"{choice} up"].append(time.monotonic() - began)
            calls[choice].append(await cpu_milliseconds(episode))


async def main(rounds: int) -> None:
    """Measure by turns, after one round that is not counted."""
    walls: dict[WallChoice, Wall | None] = {}
    for choice in CHOICES:
        try:
            walls[choice] = await open_wall(choice)
        except ConfigError as error:
            sys.stderr.write(f"{choice}: {error}\n")
    with tempfile.TemporaryDirectory() as folder:
        world, found = install_evil(Path(folder)), defaultdict[str, list[float]](list)
        await one_round(world, walls, defaultdict[str, list[float]](list))
        for _ in range(rounds):
            await one_round(world, walls, found)
    lines = ["| wall | CPU ms a call | more than a plain process | seconds until up |", "| --- | --- | --- | --- |"]
    for choice in walls:
        more = statistics.median(one - plain for one, plain in zip(found[choice], found["none"], strict=True))
        up = statistics.median(found[f"{choice} up"])
        lines.append(f"| {choice} | {statistics.median(found[choice]):.2f} | {more:+.2f} | {up:.1f} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 5)
