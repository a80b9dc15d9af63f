"""Holds MiniWoB++ to the library's own loop: the same tasks, seeds and actions have to earn the same raw reward.

    python -m tests.foreign.bars miniwob [--quick]

Needs Debian's chromium and chromium-driver. Each task is first played by the library's own loop with selenium and a
scripted policy (`miniwob_own`); its actions are then played through the hub's tools, and the verifier is asked.
"""

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from rollouthub import Deadlines, Stop, Submission
from rollouthub.errors import HubError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub.protocols import EnvironmentHost
from rollouthub_servers.foreign.requirements import foreign_home, lock_requirements
from rollouthub_servers.step_api.games import read_catalogue
from tests.foreign.bar import Bar, Missing, say
from tests.foreign.cpu_time import cpu_seconds

OWN = Path(__file__).with_name("miniwob_own.py")
SOURCE = "miniwob==1.0"
SEEDS, QUICK_SEEDS, QUICK = 3, 1, 12
MOST_STEPS = 8
AT_ONCE = 4
BEGUN = 40
"""Episodes of one task that are begun one after the other, to see how long that takes."""
DRIVER = "chromedriver"
TIMED = {
    "choose-date-easy": "its calendar closes by an animation, over which the next click may come or not",
    "email-inbox-delete": "its own loop may look before its icons are loaded, and then numbers the elements otherwise",
    "stock-market": "its price moves",
}
"""Tasks in which real time decides, which is another in each run of the library's own loop."""


@dataclass
class _Tally:
    """What became of the episodes."""

    equal: int = 0
    compared: int = 0
    steps: int = 0
    own_seconds: float = 0.0
    hub_seconds: float = 0.0
    resets: list[float] = field(default_factory=list[float])
    rewards: Counter[str] = field(default_factory=Counter[str])
    differs: dict[str, str] = field(default_factory=dict[str, str])
    ids: set[str] = field(default_factory=set[str])
    ended: set[str] = field(default_factory=set[str])
    """Tasks of which an episode was over, by both."""


def measure(folder: Path, quick: bool) -> Bar:
    """Play every task that can be imported, or some."""
    for name in (DRIVER, "chromium"):
        if shutil.which(name) is None:
            raise Missing(f"it needs {name}: apt-get install chromium chromium-driver")
    source, importer = ImportSource(SOURCE, "requirement"), find_importer("miniwob")
    out = folder / "package"
    if not out.exists():
        runs = [each.id for each in importer.look(source, {}, say) if each.runs]
        importer.write(source, runs, {}, out, Identity(), say)
    ids = [game.id for game in read_catalogue(out / "tasks").games]
    chosen = ids[:: max(1, len(ids) // QUICK)] if quick else ids
    seeds = list(range(QUICK_SEEDS if quick else SEEDS))
    kept = folder / f"own-{len(chosen)}-{len(seeds)}.jsonl"  # what was played before in the same folder stays
    if not kept.exists():
        kept.write_text("\n".join(map(json.dumps, own_loop(chosen, seeds))))
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    tally = _Tally()
    anyio.run(_play_again, next(out.glob("*_tasks.py")), lines, len(seeds), tally)
    bar = Bar("MiniWoB++", "raw rewards of episodes with its own loop, by selenium", len(ids), tally.compared)
    bar.equal, bar.unmatched = tally.equal, sum("failed" in line for line in lines)
    steps = max(1, tally.steps)
    bar.own_ms, bar.hub_ms = (1000 * seconds / steps for seconds in (tally.own_seconds, tally.hub_seconds))
    bar.differences = [f"{id}: {words}" for id, words in tally.differs.items() if id.partition("/")[0] not in TIMED]
    bar.table = _table(tally, len(ids))
    for id, words in tally.differs.items():
        say(f"{id}: {words}")
    return bar


def own_loop(ids: list[str], seeds: list[int]) -> list[dict[str, Any]]:
    """Episodes by the library itself."""
    python = foreign_home().python(lock_requirements([SOURCE], say).dependencies, say)
    command = [str(python), "-P", str(OWN), json.dumps(ids), json.dumps(seeds), str(MOST_STEPS)]
    variables = {**os.environ, "TZ": "UTC", "SE_AVOID_STATS": "true", "SE_OFFLINE": "true"}
    done = subprocess.run(command, capture_output=True, env=variables, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if not lines:
        raise Missing(f"the library's own loop does not start: {done.stderr.decode(errors='replace').strip()[-500:]}")
    return lines


async def _play_again(file: Path, lines: list[dict[str, Any]], seeds: int, tally: _Tally) -> None:
    found, limiter = find_environment(str(file)), anyio.CapacityLimiter(AT_ONCE)

    async def again(host: EnvironmentHost, line: dict[str, Any]) -> None:
        async with limiter:
            words = await _difference(host, line, tally)
        tally.resets.clear()
        tally.compared += 1
        tally.ids.add(line["id"])
        if words is None:
            tally.equal += 1
        else:
            tally.differs[f"{line['id']}/{line['seed']}"] = words

    played = [line for line in lines if "failed" not in line]
    async with open_in_process(found.name, found.environment, configured(found, {"seeds": seeds})) as host:
        await _difference(host, {**played[0], "actions": []}, _Tally())  # the browser is started
        before = cpu_seconds()
        async with anyio.create_task_group() as group:
            for line in played:
                group.start_soon(again, host, line)
        tally.hub_seconds = cpu_seconds() - before
        for _ in range(BEGUN):
            await _difference(host, {**played[0], "actions": []}, begun := _Tally())
            tally.resets += begun.resets


async def _difference(host: EnvironmentHost, line: dict[str, Any], tally: _Tally) -> str | None:
    """How the hub's reward of an episode differs; None where it is the same."""
    try:
        card = await host.find_task("test", f"{line['id']}/{line['seed']}", 0)
        began = time.monotonic()
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            tally.resets.append(time.monotonic() - began)
            seat = episode.seats["agent"]
            for name, given in line["actions"]:
                await seat.call_tool(name, given)
            score = await episode.conclude(Submission(stop=Stop.FINISHED))
            if score is None:
                return "; ".join(fault.message for fault in episode.faults)[:300]
    except HubError as error:
        return f"{type(error).__name__} {str(error)[:300]}"
    tally.steps += len(line["actions"])
    tally.own_seconds += line["cpu"]
    tally.rewards[f"{score.reward:.3g}"] += 1
    if score.metrics["over"] and line["done"]:
        tally.ended.add(line["id"])
    if bool(score.metrics["over"]) != line["done"] or score.reward != line["reward"]:
        return f"{score.reward}, {score.feedback}; its own loop: {line['reward']}, {'' if line['done'] else 'not '}over"
    return None


def _table(tally: _Tally, listed: int) -> str:
    resets = sorted(1000 * each for each in tally.resets)
    few = {id.partition("/")[0] for id in tally.differs}
    return "\n".join(
        (
            "| tasks played | equal in all episodes | episodes | equal | brought to an end | different rewards | "
            "ms to begin an episode, half of them | nine of ten |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            f"| {len(tally.ids)} of {listed} | {len(tally.ids - few)} | {tally.compared} | {tally.equal} | "
            f"{len(tally.ended)} tasks | {len(tally.rewards)} | {resets[len(resets) // 2]:.0f} | "
            f"{resets[len(resets) * 9 // 10]:.0f} |",
        )
    )
