"""AgentWorldModel: scenarios are played in pairs side by side, one episode of which does what its task asks for.

The verdict must be `complete` for it and `others` for its neighbour, which must see nothing of what it wrote. With
`ROLLOUTHUB_AWM`, a folder with the published files, the scenarios there are played, too: of these nobody knows what
their tasks ask for, so both episodes only read, and must read the same.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp_types import Tool

from rollouthub import BadRow, Deadlines, Submission
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub.protocols import EnvironmentHost, Episode
from rollouthub_servers.agent_world_model import AgentWorldModel
from rollouthub_servers.agent_world_model.scenario_files import find_scenarios, read_tasks, write_scenarios
from tests.foreign.bar import Bar, say
from tests.foreign.cpu_time import cpu_seconds
from tests.mcp_servers.foreign_formats.shaped_awm import CANARY, write_files

SOURCE = "ROLLOUTHUB_AWM"
REPEATS, QUICK_REPEATS, CALLS, MANY = 300, 20, 200, 1000
JOBS = 2
DONE = Submission(transcript=(assistant("Done."),))
WRITING = "verify"
"""The operation of a made scenario that does what its task asks for."""


def measure(folder: Path, quick: bool) -> Bar:
    """Play every scenario so many times."""
    bar = Bar("AgentWorldModel-1K", "verdicts of episodes side by side, by what each did")
    lines = ["| scenario | episodes | as they must be | CPU ms of a call: hub | its process |"]
    lines.append("| --- | --- | --- | --- | --- |")
    sources = {"made": write_files(folder / "made", 2)}
    if given := os.environ.get(SOURCE):
        sources["given"] = Path(given)
    for name, source in sources.items():
        out, where = folder / f"package-{name}", ImportSource(str(source), "folder")
        importer = find_importer("agent_world_model")
        if not out.exists():
            runs = [each.id for each in importer.look(where, {}, say) if each.runs]
            importer.write(where, runs, {}, out, Identity(), say)
        lines += anyio.run(_play_all, next(out.glob("*_tasks.py")), QUICK_REPEATS if quick else REPEATS, bar)
    bar.table = "\n".join((*lines, "", _opening_of_many(folder)))
    return bar


async def _play_all(file: Path, repeats: int, bar: Bar) -> list[str]:
    found, lines = find_environment(str(file)), list[str]()
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        cards = {card.public.source: card async for card in host.tasks("test", 0) if not isinstance(card, BadRow)}
        bar.listed += sum([not isinstance(card, BadRow) async for card in host.tasks("test", 0)])
        for scenario, card in cards.items():
            lines.append(await _Scenario(host, str(scenario), card, bar).played(repeats))
            say(lines[-1])
    return lines


class _Scenario:
    """One scenario that is being played."""

    def __init__(self, host: EnvironmentHost, name: str, card: Any, bar: Bar) -> None:
        self.host, self.name, self.card, self.bar = host, name, card, bar
        self.opening: list[str] | None = None
        self.right = 0

    async def played(self, repeats: int) -> str:
        """Play it in pairs; its line of the table."""
        limiter = anyio.CapacityLimiter(JOBS)

        async def pair() -> None:
            async with limiter:
                await self._pair(is_made)

        (programs,) = [each for each in AgentWorldModel.programs.values() if each.has(self.name)]
        async with programs.session(self.name):  # held, so that its process stays
            is_made = WRITING in [tool.name for tool in await self._tools()]
            async with anyio.create_task_group() as group:
                for _ in range(repeats // 2):
                    group.start_soon(pair)
            guard = (await programs.running(self.name).shared()).pid
            assert guard is not None
            hub, driver = await self._cost(guard)
        self.bar.compared, self.bar.equal = self.bar.compared + repeats, self.bar.equal + self.right
        self.bar.hub_ms = max(self.bar.hub_ms or 0.0, hub + driver)
        return f"| {self.name} | {repeats} | {self.right} | {hub:.2f} | {driver:.2f} |"

    async def _pair(self, is_made: bool) -> None:
        async with self._open() as writer:
            async with self._open() as idle:
                before = await _seen(idle)
                if is_made:
                    await writer.seats["agent"].call_tool(WRITING, {"text": CANARY})
                after, verdict = await _seen(idle), (await idle.verify(DONE)).reward
            found = (await writer.verify(DONE)).reward
        self.opening = self.opening or before
        if before != after or before != self.opening:
            self.bar.differences.append(f"{self.name}: an episode sees what another wrote")
        elif is_made and (found, verdict) != (1.0, 0.0):
            self.bar.differences.append(f"{self.name}: {found} for what was asked for, and {verdict} for nothing")
        else:
            self.right += 2

    async def _tools(self) -> Sequence[Tool]:
        async with self._open() as episode:
            return _free(episode, every=True)

    async def _cost(self, guard: int) -> tuple[float, float]:
        """CPU milliseconds of a call in an episode that is under way: the hub's, and those of its process."""
        async with self._open() as episode:
            free = _free(episode)
            if not free:
                return 0.0, 0.0
            await episode.seats["agent"].call_tool(free[0].name, {})
            hub, driver = time.process_time(), cpu_seconds(guard)
            for _ in range(CALLS):
                await episode.seats["agent"].call_tool(free[0].name, {})
            hub, driver = time.process_time() - hub, cpu_seconds(guard) - driver
        return 1e3 * hub / CALLS, 1e3 * driver / CALLS

    def _open(self) -> Any:
        return self.host.open(self.card, seed=0, deadlines=Deadlines())


def _free(episode: Episode, every: bool = False) -> list[Tool]:
    """Operations without required arguments, or all of them."""
    seat = episode.seats["agent"]
    own = [tool for tool in seat.tools if tool.name in seat.task_tools]
    return [tool for tool in own if every or (not tool.input_schema.get("required") and tool.name != "hang")]


async def _seen(episode: Episode) -> list[str]:
    """What the operations without arguments answer."""
    return [str((await episode.seats["agent"].call_tool(tool.name, {})).content) for tool in _free(episode)]


def _opening_of_many(folder: Path) -> str:
    """How long a package of 1,000 scenarios takes to open."""
    source, data = write_files(folder / "many", MANY), folder / "many_data"
    data.mkdir(exist_ok=True)
    began = time.perf_counter()
    found = find_scenarios(source)
    if not (data / "scenarios").exists():
        write_scenarios(source, list(found.values()), data)
    wrote = time.perf_counter()
    next(read_tasks(data))
    first = 1e3 * (time.perf_counter() - wrote)
    return (
        f"{MANY:,} scenarios were read and written in {wrote - began:.1f} s; the first task came after {first:.1f} ms."
    )
