"""OpenEnv: environments of a checkout are imported (as `SETTINGS` says where one needs any), played by OpenEnv's own
loop with a scripted policy (`openenv_own`), and then with the same actions through the hub's tools: the rewards have to
be the same.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from rollouthub import Deadlines, Stop, Submission
from rollouthub.errors import HubError, VerifierError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource
from rollouthub.protocols import EnvironmentHost
from rollouthub_servers.foreign_app.app_record import BESIDE, CODE, read_record
from rollouthub_servers.openenv.importer import OpenEnvImporter
from rollouthub_servers.openenv.openenv_record import OpenEnvRecord
from rollouthub_servers.openenv.shown_fields import shown_text
from tests.foreign.bar import Bar, Missing, checkout_of, say
from tests.foreign.cpu_time import cpu_seconds
from tests.foreign.own_program import own_program

OWN = Path(__file__).with_name("openenv_own.py")
ENVIRONMENTS = (
    "reasoning_gym_env",
    "maze_env",
    "grid_world_env",
    "snake_env",
    "connect4_env",
    "chess_env",
    "calendar_env",
)
NO_WHEEL = ("gym==0.24.1", "gym-notices")
"""What `snake_env` imports."""
NO_REWARD = "no reward, by both"
OPENINGS = 10
"""So often an episode is begun to find the same opening, where an environment draws what no seed settles."""
SETTINGS: dict[str, dict[str, Any]] = {
    "reasoning_gym_env": {
        "without": ["cellpylib", "pycosat", "zss"],
        "requirements": ["python-dateutil"],
        "resets": [{"dataset_name": name, "size": 20} for name in ("leg_counting", "spell_backward")],
    },
    "snake_env": {"without": ["gym"]},
}


@dataclass
class Played:
    """What became of one environment."""

    name: str
    why: str = ""
    """Why it does not play, or how it differs."""
    listed: int = 0
    """Tasks of its import, with as many seeds as are played."""
    episodes: int = 0
    equal: int = 0
    steps: int = 0
    rewards: set[float] = field(default_factory=set[float])
    own_seconds: float = 0.0
    hub_seconds: float = 0.0


@dataclass(frozen=True)
class Compared:
    """What is played of a checkout."""

    folder: Path
    seeds: int = 3
    most: int = 30
    """Steps of an episode."""
    beside: Path | None = None
    """Packages without a wheel."""


def settings_of(name: str, folder: Path, beside: Path | None) -> dict[str, Any]:
    """How an environment is imported."""
    settings = dict(SETTINGS.get(name, {}))
    if beside is not None and settings.get("without"):
        settings["beside"] = str(beside)
    scenario = folder / "scenario_config.json"
    if scenario.is_file():  # the calendar's: its user acts by a token
        settings["headers"] = {"x-access-token": json.loads(scenario.read_text())["context"]["x-access-token"]}
    return settings


def compared(source: ImportSource, name: str, given: Compared) -> Played:
    """Import one environment and hold it to its own loop."""
    with tempfile.TemporaryDirectory(prefix="openenv-") as scratch:
        return _compared_in(Path(scratch), source, name, given)


def _compared_in(scratch: Path, source: ImportSource, name: str, given: Compared) -> Played:
    played = Played(name)
    root = given.folder / "envs" if (given.folder / "envs").is_dir() else given.folder
    settings = settings_of(name, root / name, given.beside)
    try:
        (file,) = OpenEnvImporter().write(source, [name], settings, scratch / "package", Identity())
    except HubError as error:
        played.why = f"not imported: {' '.join(str(error).split())[:300]}"
        return played
    data = scratch / "package" / "data"
    record = read_record(OpenEnvRecord, data)
    resets: list[dict[str, Any]] = settings.get("resets", [{}])
    played.listed = len(resets) * given.seeds
    episodes = [(reset, seed) for reset in resets for seed in range(given.seeds)]
    try:
        lines = _own_loop(data, record, episodes, given.most, scratch / "own")
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = (error.stderr or b"").decode(errors="replace").strip().splitlines()
        played.why = f"OpenEnv's own loop fails: {(said or [str(error)])[-1][:200]}"
        return played
    anyio.run(_play_again, file, record, lines, resets, given.seeds, played)
    return played


def _own_loop(data: Path, record: OpenEnvRecord, episodes: list[Any], most: int, here: Path) -> list[dict[str, Any]]:
    code = data / CODE / record.name
    shutil.copytree(code, here)  # as its container would hold it: it may write beside itself
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {**os.environ, "PORT": str(port), "PYTHONHASHSEED": "0", "PYTHONPATH": str((data / BESIDE).absolute())}
    record_file = str((data / OpenEnvRecord.file).absolute())
    command = own_program(data, OWN, str(code.absolute()), record_file, json.dumps(episodes), str(most))
    done = subprocess.run(command, cwd=here, env=variables, capture_output=True, check=True, timeout=600)
    return [json.loads(line) for line in done.stdout.splitlines()]


async def _play_again(
    file: Path, record: OpenEnvRecord, lines: list[dict[str, Any]], resets: list[Any], seeds: int, played: Played
) -> None:
    found = find_environment(str(file))
    config = configured(found, {"seeds": seeds})
    async with open_in_process(found.name, found.environment, config) as host:
        await _one(host, record, {**lines[0], "actions": []}, resets, played)  # its process is started
        played.steps, before = 0, cpu_seconds()
        for line in lines:
            played.episodes += 1
            if "failed" in line:
                played.why = played.why or f"OpenEnv's own loop: {line['failed']}"
                continue
            played.own_seconds += line["cpu"]
            words = await _one(host, record, line, resets, played)
            played.equal += words is None
            played.why = played.why or words or ""
        played.hub_seconds = cpu_seconds() - before


async def _one(
    host: EnvironmentHost, record: OpenEnvRecord, line: dict[str, Any], resets: list[Any], played: Played
) -> str | None:
    """How the hub's rewards of one episode differ; None where they are equal."""
    name = record.name if len(resets) == 1 else f"{record.name}-{resets.index(line['reset'])}"
    numbers = [float(reward) for reward in line.get("rewards", ()) if reward is not None]
    opening = shown_text(line.get("opening", {}), record.shown)
    try:
        card = await host.find_task("test", f"{name}/{line['seed']}", 0)
        for _ in range(OPENINGS):
            async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
                seat = episode.seats["agent"]
                if not seat.messages[0].text.endswith(opening):
                    continue
                for tool, arguments in line["actions"]:
                    await seat.call_tool(tool, arguments)
                score = await episode.conclude(Submission(stop=Stop.FINISHED))
                if score is None:
                    return f"differs: {episode.faults[0].message[:200]}"
                break
        else:
            return f"differs: no opening of {OPENINGS} is its own loop's"
    except VerifierError as error:
        return NO_REWARD if not numbers else f"differs: {str(error)[:200]}"
    except HubError as error:
        return f"differs: {type(error).__name__} {str(error)[:200]}"
    played.steps += int(score.metrics["steps"])
    played.rewards.add(score.reward)
    if score.metrics["steps"] != len(line["actions"]) or bool(score.metrics["over"]) != line.get("done", False):
        return f"differs: {score.feedback}, and {len(line['actions'])} steps by its own loop" if numbers else None
    return None if score.reward == sum(numbers) else f"differs: {score.reward}, and {sum(numbers)} by its own loop"


def _row(played: Played) -> str:
    counts = f"{played.episodes} | {played.equal} | {played.steps} | {len(played.rewards)}"
    own, hub = (1000 * seconds / max(1, played.steps) for seconds in (played.own_seconds, played.hub_seconds))
    return f"| {played.name} | {counts} | {own:.2f} | {hub:.2f} |"


def without_wheel(folder: Path) -> Path:
    """A folder with the packages that have no wheel.

    Raises:
        Missing: they cannot be had.
    """
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), *NO_WHEEL]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            raise Missing(f"{NO_WHEEL[0]} cannot be installed: {done.stderr.strip()[-300:]}")
    return folder


def measure(folder: Path, quick: bool) -> Bar:
    """Play the environments, or begin each of them."""
    checkout = checkout_of("ROLLOUTHUB_OPENENV", "OpenEnv")
    bar = Bar("OpenEnv", "rewards of episodes with its own client and server")
    lines = ["| environment | episodes | equal | steps | different rewards | CPU ms a step, own loop | the hub |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    given = Compared(checkout, 1 if quick else 4, 10 if quick else 40, without_wheel(folder / "beside"))
    steps, own_seconds, hub_seconds = 0, 0.0, 0.0
    for name in ENVIRONMENTS:
        played = compared(ImportSource(str(checkout), "folder"), name, given)
        lines.append(_row(played))
        say(f"{lines[-1]} {played.why}")
        bar.listed, bar.compared = bar.listed + played.listed, bar.compared + played.episodes
        bar.equal += played.equal
        steps, own_seconds = steps + played.steps, own_seconds + played.own_seconds
        hub_seconds += played.hub_seconds
        if played.why == NO_REWARD:
            bar.unmatched += played.episodes - played.equal
        elif played.why:
            bar.differences.append(f"{name}: {played.why}")
    bar.own_ms, bar.hub_ms = (1000 * seconds / max(1, steps) for seconds in (own_seconds, hub_seconds))
    bar.table = "\n".join(lines)
    return bar
