"""ORS: every task of the server in `ors_set` is played by ORS's own client and server with a scripted policy
(`ors_own`), and then with the same calls through the hub's tools: the rewards have to be the same.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from rollouthub import Deadlines, Stop, Submission
from rollouthub.errors import HubError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub.protocols import EnvironmentHost
from tests.foreign.bar import Bar, say
from tests.foreign.cpu_time import cpu_seconds
from tests.foreign.own_program import own_program

OWN, SET = Path(__file__).with_name("ors_own.py"), Path(__file__).with_name("ors_set")
SAMPLES = 5
"""Episodes of each task."""


def measure(folder: Path, quick: bool) -> Bar:
    """Import, play, compare."""
    importer, source, out = find_importer("ors"), ImportSource.of(str(SET)), folder / "packages"
    names = [each.id for each in importer.look(source, {}, say) if each.runs]
    if not out.exists():
        importer.write(source, names, {}, out, Identity(), say)
    bar = Bar("ORS", "rewards of episodes with its own client and server")
    lines = ["| environment | episodes | equal | calls | different rewards | CPU ms a call, own loop | the hub |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    calls, own_seconds, hub_seconds = 0, 0.0, 0.0
    for name in names:
        (file,) = (out / name).glob("*_ors.py")
        played = own_loop(file.parent / "data", [name], 1 if quick else SAMPLES)
        bar.listed += len({(each["split"], each["index"]) for each in played})
        rewards, used = anyio.run(through_hub, file, played)
        pairs = list(zip(played, rewards, strict=True))
        equal = [line for line, reward in pairs if reward == sum(line["rewards"])]
        bar.differences += [f"{name}: {reward}, and {line}" for line, reward in pairs if reward != sum(line["rewards"])]
        made, spent = sum(len(each["calls"]) for each in played), sum(each["cpu"] for each in played)
        bar.compared, bar.equal = bar.compared + len(played), bar.equal + len(equal)
        calls, own_seconds, hub_seconds = calls + made, own_seconds + spent, hub_seconds + used
        different = len({sum(each["rewards"]) for each in equal})
        cost = f"{1000 * spent / made:.2f} | {1000 * used / made:.2f}"
        lines.append(f"| {name} | {len(played)} | {len(equal)} | {made} | {different} | {cost} |")
    bar.own_ms, bar.hub_ms = (1000 * seconds / calls for seconds in (own_seconds, hub_seconds))
    bar.table = "\n".join(lines)
    return bar


def own_loop(data: Path, names: Sequence[str], samples: int) -> list[dict[str, Any]]:
    """Episodes of all tasks of some environments by ORS itself."""
    command = own_program(data, OWN, str(SET / "server.py"), json.dumps(list(names)), str(samples))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise SystemExit(f"ORS's own loop failed: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


async def through_hub(file: Path, played: Sequence[dict[str, Any]]) -> tuple[list[float | str], float]:
    """The hub's rewards of the same calls, or why one has none, and the CPU seconds of all processes."""
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        await _reward(host, {**played[0], "calls": []})  # its process is started
        before = cpu_seconds()
        rewards = [await _reward(host, line) for line in played]
        return rewards, cpu_seconds() - before


async def _reward(host: EnvironmentHost, line: dict[str, Any]) -> float | str:
    name, split = line["environment"], line["split"]
    try:
        card = await host.find_task(split, f"{name}/{split}/{line['index']}", 0)
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            for tool, given in line["calls"]:
                await episode.seats["agent"].call_tool(tool, given)
            score = await episode.conclude(Submission(stop=Stop.FINISHED))
            return "; ".join(each.message for each in episode.faults) if score is None else score.reward
    except HubError as error:
        return f"{type(error).__name__}: {error}"
