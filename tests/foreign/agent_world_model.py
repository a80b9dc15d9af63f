"""The bar of AgentWorldModel: `python -m tests.foreign.agent_world_model FOLDER [--data DIR] [--repeats N]`.

Imports scenarios made by a script, or those in a folder with the published files, and plays every scenario N times
(300): two calls of each operation that needs no argument, and the verdict. Prints how many episodes were played through
and what a tool call costs; then how long 1,000 scenarios take to open. Needs a package index.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from rollouthub import BadRow, Deadlines, Submission
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub.protocols import EnvironmentHost
from rollouthub_servers.agent_world_model import AgentWorldModel
from rollouthub_servers.agent_world_model.scenario_files import find_scenarios, read_tasks, write_scenarios
from tests.foreign.bfcl import below
from tests.mcp_servers.foreign_formats.shaped_awm import write_files

JOBS = 2
_CONTRACT = {"get_task", "reply", "submit", "hang"}


def say(text: str) -> None:
    """Tell how far it is."""
    sys.stderr.write(text + "\n")


async def play_all(file: Path, repeats: int) -> None:
    """Every scenario, so many times, one scenario after the other."""
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        cards = {card.public.source: card async for card in host.tasks("test", 0) if not isinstance(card, BadRow)}
        for scenario, card in cards.items():
            sys.stdout.write(await played(host, str(scenario), card, repeats) + "\n")
            sys.stdout.flush()


async def played(host: EnvironmentHost, scenario: str, card: Any, repeats: int) -> str:
    """Play one scenario; a line of the table."""
    limiter, verdicts, calls, errors = anyio.CapacityLimiter(JOBS), Counter[str](), 0, 0
    (programs,) = AgentWorldModel.programs.values()

    async def one() -> None:
        nonlocal calls, errors
        async with limiter, host.open(card, seed=0, deadlines=Deadlines()) as episode:
            seat = episode.seats["agent"]
            free = [t.name for t in seat.tools if not t.input_schema.get("required") and t.name not in _CONTRACT]
            for name in free * 2:
                errors += (await seat.call_tool(name, {})).is_error is True
                calls += 1
            score = await episode.verify(Submission(transcript=(assistant("Done."),)))
            verdicts[str(score.reward)] += 1

    async with programs.session(scenario):  # held, so that its process stays
        guard = (await programs.running(scenario).shared()).pid
        assert guard is not None
        started, hub = time.perf_counter(), time.process_time()
        async with anyio.create_task_group() as group:
            for _ in range(repeats):
                group.start_soon(one)
        seconds, hub = time.perf_counter() - started, time.process_time() - hub
        each = await cost(host, card, guard)
    counted = f"{sum(verdicts.values())} of {repeats} scored ({dict(verdicts)}), {calls} calls, {errors} refused"
    whole = f"{seconds:.1f} s, {1e3 * hub / repeats:.1f} ms CPU of the hub's an episode"
    return f"{scenario}: {counted}; {whole}; {each}"


async def cost(host: EnvironmentHost, card: Any, guard: int) -> str:
    """What calls cost in an episode that is under way: 200 of one operation."""
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        seat = episode.seats["agent"]
        free = [t.name for t in seat.tools if not t.input_schema.get("required") and t.name not in _CONTRACT]
        if not free:
            return "no operation without arguments"
        await seat.call_tool(free[0], {})
        hub, driver = time.process_time(), below(guard)
        for _ in range(200):
            await seat.call_tool(free[0], {})
        hub, driver = time.process_time() - hub, below(guard) - driver
    return f"a call of {free[0]!r} {hub * 5:.2f} ms CPU in the hub and {driver * 5:.2f} ms in its process"


def open_many(folder: Path) -> None:
    """How long a package of 1,000 scenarios takes to open."""
    source, data = write_files(folder / "many", 1000), folder / "many_data"
    data.mkdir(exist_ok=True)
    began = time.perf_counter()
    found = find_scenarios(source)
    write_scenarios(source, list(found.values()), data)
    wrote = time.perf_counter()
    next(read_tasks(data))
    first = time.perf_counter()
    count = sum(1 for _ in read_tasks(data))
    took = f"the first task after {1e3 * (first - wrote):.1f} ms, all {count} after {time.perf_counter() - first:.2f} s"
    sys.stdout.write(f"1,000 scenarios: read and written in {wrote - began:.1f} s; {took}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, help="a folder with the published files")
    parser.add_argument("--repeats", type=int, default=300)
    given = parser.parse_args(arguments)
    folder: Path = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    source = given.data or write_files(folder / "made", 2)
    importer, out = find_importer("agent_world_model"), folder / "package"
    if not out.exists():
        where = ImportSource(str(source), "folder")
        runs = [each.id for each in importer.look(where, {}, say) if each.runs]
        importer.write(where, runs, {}, out, Identity(), say)
    anyio.run(play_all, next(out.glob("*_tasks.py")), given.repeats)
    if given.data is None:
        open_many(folder)


if __name__ == "__main__":
    main()
