"""HUD: answers to each task of `hud_set`, and calls of its tools, are played through the hub, and again by HUD's own
protocol at its own server (`hud_own`): the rewards have to be the same.
"""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from rollouthub import Deadlines, Submission
from rollouthub.errors import HubError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub.protocols import EnvironmentHost
from tests.foreign.bar import Bar, say
from tests.foreign.cpu_time import cpu_seconds
from tests.foreign.own_program import own_program

OWN, SET = Path(__file__).with_name("hud_own.py"), Path(__file__).with_name("hud_set")
PLAYED = ("words", "notes")
ANSWERS = ("3", "0", "owl-secret", "", '{"score": 1.0}')
NOTED: dict[str, tuple[tuple[str, ...], ...]] = {"notes": ((), ("plum",), ("pear",), ("pear", "plum"))}
"""By environment, the words that are noted by its tool before the answer."""


@dataclass(frozen=True)
class Line:
    """One task that was played: its two rewards, and what they cost."""

    environment: str
    job: dict[str, Any]
    hub: float | str
    """The reward, or why there is none."""
    own: float
    hub_seconds: float
    own_seconds: float


def measure(folder: Path, quick: bool) -> Bar:
    """Import, play, compare."""
    importer, source, out = find_importer("hud"), ImportSource.of(str(SET)), folder / "packages"
    if not out.exists():
        importer.write(source, PLAYED, {}, out, Identity(), say)
    bar = Bar("HUD", "rewards of answers and calls with its own protocol")
    found = compared(out, 2 if quick else len(ANSWERS))
    lines = ["| environment | tasks | results | equal | different rewards | CPU ms a message, its own | the hub |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for name in PLAYED:
        own = [line for line in found if line.environment == name]
        equal = [line for line in own if line.hub == line.own]
        tasks, different = len({line.job["row"]["slug"] for line in own}), len({line.own for line in equal})
        cost = "{:.2f} | {:.2f}".format(*_milliseconds(own))
        lines.append(f"| {name} | {tasks} | {len(own)} | {len(equal)} | {different} | {cost} |")
        bar.listed, bar.compared, bar.equal = bar.listed + tasks, bar.compared + len(own), bar.equal + len(equal)
    bar.differences = [str(line) for line in found if line.hub != line.own]
    (bar.own_ms, bar.hub_ms), bar.table = _milliseconds(found), "\n".join(lines)
    return bar


def compared(packages: Path, answers: int = len(ANSWERS)) -> list[Line]:
    """Every task, with every answer, after every sequence of calls."""
    found: list[Line] = []
    for name in PLAYED:
        (file,) = (packages / name).glob("*_env.py")
        rows = [json.loads(line)["row"] for line in (file.parent / "data" / "tasks.jsonl").read_text().splitlines()]
        jobs: list[dict[str, Any]] = [
            {"row": row, "calls": [["note", {"word": word}] for word in words], "answer": answer}
            for row in rows
            for words in NOTED.get(name, ((),))
            for answer in ANSWERS[:answers]
        ]
        own, hub = own_protocol(file.parent / "data", jobs), anyio.run(through_hub, file, jobs)
        for job, theirs, (reward, seconds) in zip(jobs, own, hub, strict=True):
            found.append(Line(name, job, reward, theirs["score"], seconds, theirs["cpu"]))
    return found


def own_protocol(data: Path, jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Scores by HUD itself."""
    command = own_program(data, OWN, str(data / "code" / "env.py"), json.dumps(jobs))
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise SystemExit(f"HUD's own program failed: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


async def through_hub(file: Path, jobs: Sequence[dict[str, Any]]) -> list[tuple[float | str, float]]:
    """The hub's reward of each, and the CPU seconds of all processes that it took."""
    found, rewards = find_environment(str(file)), list[tuple[float | str, float]]()
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        await _reward(host, jobs[0])  # its process is started
        for job in jobs:
            before = cpu_seconds()
            reward = await _reward(host, job)
            rewards.append((reward, cpu_seconds() - before))
    return rewards


async def _reward(host: EnvironmentHost, job: dict[str, Any]) -> float | str:
    try:
        card = await host.find_task("test", job["row"]["slug"], 0)
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            seat, words = episode.seats["agent"], assistant(job["answer"])
            for name, given in job["calls"]:
                await seat.call_tool(name, given)
            await seat.reply([words])
            return (await episode.verify(Submission(transcript=(*seat.messages, words)))).reward
    except HubError as error:
        return f"{type(error).__name__}: {error}"


def _milliseconds(lines: Sequence[Line]) -> tuple[float, float]:
    """CPU of a message or call by HUD itself and through the hub, with the beginning and the end of each task."""
    messages = sum(1 + len(line.job["calls"]) for line in lines)
    own, hub = sum(line.own_seconds for line in lines), sum(line.hub_seconds for line in lines)
    return 1000 * own / messages, 1000 * hub / messages
