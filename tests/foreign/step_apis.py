"""The step APIs (Gymnasium, GEM, TextArena): each game is first played by the library's own loop (`step_loops`) with a
scripted policy; its actions are then played through the hub's tools, each by its seat, and the verifier is asked. What
earns must be the same.
"""

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from rollouthub import Deadlines, Stop, Submission
from rollouthub.errors import HubError, VerifierError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, chosen_of, find_importer
from rollouthub.protocols import AgentPlane, EnvironmentHost, Episode
from rollouthub_servers.step_api.games import GAMES_FILE, NLTK_FOLDER, Catalogue, read_catalogue
from tests.foreign.bar import Bar, say
from tests.foreign.cpu_time import cpu_seconds
from tests.foreign.own_program import own_program
from tests.foreign.step_loops import SECONDS

LOOPS = Path(__file__).with_name("step_loops.py")
AT_ONCE, QUICK = 4, 20
DIFFERS = "differs"


@dataclass(frozen=True)
class Source:
    """A library, and how it is imported."""

    importer: str
    distribution: str
    patterns: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seeds: int = 1
    most_steps: int = 60
    """Of a game; longer ones are cut, and said to be."""
    title: str = ""


SOURCES = (
    Source("gymnasium", "gymnasium[classic-control,toy-text]==1.4.0", seeds=2, most_steps=200, title="Gymnasium 1.4.0"),
    Source(
        "gem",
        "gem-llm==0.1.0",
        settings={"without": ["cellpylib", "pycosat", "zss"], "requirements": ["python-dateutil"]},
        title="GEM 0.1.0",
    ),
    Source("textarena", "textarena==0.7.4", ("*-v0", "*-train"), title="TextArena 0.7.4"),
)


@dataclass
class Tally:
    """What became of one library's games."""

    name: str
    ids: set[str] = field(default_factory=set[str])
    games: int = 0
    compared: int = 0
    equal: int = 0
    differs: dict[str, str] = field(default_factory=dict[str, str])
    """Id → how a game of it differed."""
    unmatched: dict[str, str] = field(default_factory=dict[str, str])
    """Id → why a game of it could not be compared."""
    rewards: set[str] = field(default_factory=set[str])
    steps: int = 0
    own_seconds: float = 0.0
    hub_seconds: float = 0.0


def measure(folder: Path, quick: bool) -> Bar:
    """Play every game that can be imported, or some."""
    bar = Bar("Step APIs", "rewards of games of Gymnasium, GEM and TextArena with their own loops")
    lines, notes, steps, own_seconds, hub_seconds = list[str](_HEAD), list[str](), 0, 0.0, 0.0
    for source in SOURCES:
        out, tally = folder / source.importer, Tally(source.title)
        refused = _imported(source, out)
        for package in [file.parent.parent for file in sorted(out.rglob(GAMES_FILE))]:
            seeds, every = range(1 if quick else source.seeds), QUICK if quick else 1
            anyio.run(_compared, package, seeds, source.most_steps, every, tally)
        lines.append(_row(tally))
        notes += ["", f"{source.title}: {_rest(tally, refused)}"]
        say(lines[-1])
        bar.listed, bar.compared = bar.listed + tally.games, bar.compared + tally.compared
        bar.equal, bar.unmatched = bar.equal + tally.equal, bar.unmatched + tally.games - tally.compared
        bar.differences += [f"{id}: {words}" for id, words in tally.differs.items()]
        steps, own_seconds = steps + tally.steps, own_seconds + tally.own_seconds
        hub_seconds += tally.hub_seconds
    bar.own_ms, bar.hub_ms = (1000 * seconds / max(1, steps) for seconds in (own_seconds, hub_seconds))
    bar.table = "\n".join((*lines, *notes))
    return bar


def _imported(source: Source, out: Path) -> int:
    """Import a library's games, where that is not done yet; how many of the chosen ids are refused."""
    kept = out.with_suffix(".refused")
    if not out.exists():
        importer, place = find_importer(source.importer), ImportSource.of(source.distribution, source.patterns)
        found = chosen_of(importer.look(place, source.settings, say), source.patterns, "id")
        importer.write(place, [each.id for each in found if each.runs], source.settings, out, Identity(), say)
        kept.write_text(str(sum(not each.runs for each in found)))
    return int(kept.read_text())


def _rest(tally: Tally, refused: int) -> str:
    """Which games could not be compared, by why, and how many ids are refused."""
    kinds: dict[str, list[str]] = {}
    for id, words in sorted(tally.unmatched.items()):
        kinds.setdefault(words.partition(":")[0], []).append(f"`{id}`")
    parts = [f"{words} ({', '.join(ids)})" for words, ids in kinds.items()]
    return "; ".join((f"{refused} of the ids are refused", *parts)) + "."


def module_of(package: Path) -> Path:
    """The module of a package that `hub import` wrote."""
    (file,) = package.glob("*_games.py")
    return file


async def _compared(package: Path, seeds: Sequence[int], most: int, every: int, tally: Tally) -> None:
    file, data = module_of(package), package / "games"
    catalogue = read_catalogue(data)
    asked = [(game.id, game.players) for game in catalogue.games[::every]]
    played = await anyio.to_thread.run_sync(_own_loops, data, catalogue, asked, seeds, most)
    ids = {id for id, _ in asked}
    tally.ids |= ids
    tally.games += len(asked) * len(seeds)
    found = find_environment(str(file))
    config = configured(found, {"seeds": max(seeds) + 1})
    async with open_in_process(found.name, found.environment, config) as host:
        await _play_again(host, played, tally)
    ended = {(line["id"], line["seed"]) for line in played}
    silent = {id for id in ids for seed in seeds if (id, seed) not in ended}
    tally.unmatched |= dict.fromkeys(silent, f"the library's own loop does not end within {SECONDS} s")


def _own_loops(
    data: Path, catalogue: Catalogue, asked: Sequence[tuple[str, int]], seeds: Sequence[int], most: int
) -> list[dict[str, Any]]:
    words = [catalogue.library, json.dumps(asked), json.dumps(list(seeds)), str(most)]
    words += [json.dumps(catalogue.modules), json.dumps(catalogue.absent)]
    variables = {**os.environ, "PYTHONHASHSEED": "0", "NLTK_DATA": str(data / NLTK_FOLDER)}
    command = own_program(data, LOOPS, *words)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=variables, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


async def _play_again(host: EnvironmentHost, played: Sequence[dict[str, Any]], tally: Tally) -> None:
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def again(line: dict[str, Any]) -> None:
        async with limiter:
            words = await _difference(host, line, tally)
        if words is not None and not words.startswith(DIFFERS):
            tally.unmatched[line["id"]] = words
            return
        tally.compared += 1
        tally.equal += words is None
        if words is not None:
            tally.differs[line["id"]] = words

    before, began = cpu_seconds(), time.monotonic()
    async with anyio.create_task_group() as group:
        for line in played:
            if "failed" in line:
                tally.unmatched[line["id"]] = f"the library's own loop fails: {line['failed']}"
            else:
                group.start_soon(again, line)
    tally.hub_seconds += cpu_seconds() - before
    say(f"{tally.name}: {len(played)} games in {time.monotonic() - began:.0f} s")


async def _difference(host: EnvironmentHost, line: dict[str, Any], tally: Tally) -> str | None:
    """How the hub's rewards differ from the library's; None where they are equal."""
    try:
        card = await host.find_task("test", f"{line['id']}/{line['seed']}", 0)
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            with anyio.fail_after(300):
                await _act(host, episode, line["actions"])
            score = await episode.conclude(Submission(stop=Stop.FINISHED))
            if score is None:
                return f"differs: {'; '.join(fault.message for fault in episode.faults)[:300]}"
    except VerifierError as error:
        is_no_number = any(not isinstance(reward, int | float) for reward in line["rewards"] or (None,))
        return f"{'no reward, by both' if is_no_number else DIFFERS}: {str(error)[:300]}"
    except (HubError, TimeoutError) as error:
        return f"differs: {type(error).__name__} {str(error)[:300]}"
    tally.steps += int(score.metrics["steps"])
    tally.own_seconds += line["cpu"]
    if score.suspect is not None:
        return f"differs: {score.suspect}"
    if not line["done"] and line["rewards"] is None:
        return f"not over after {len(line['actions'])} steps, by both" if not score.metrics["over"] else "differs: over"
    seats = host.info.seats
    earned = [score.seat_rewards[seat] for seat in seats] if len(seats) > 1 else [score.reward]
    if bool(score.metrics["over"]) != line["done"] or int(score.metrics["steps"]) != len(line["actions"]):
        return f"differs: {score.feedback}, and {len(line['actions'])} steps by its own loop"
    tally.rewards.add(str(line["rewards"]))
    return None if earned == line["rewards"] else f"differs: {earned}, and {line['rewards']} by its own loop"


async def _act(host: EnvironmentHost, episode: Episode, actions: Sequence[tuple[int, Any]]) -> None:
    """Make each seat's moves; a call returns at the seat's next turn."""

    async def play(number: int, seat: str) -> None:
        plane = episode.seats[seat]
        if len(host.info.seats) > 1:
            await plane.reply(())
        for player, action in actions:
            if player == number and not await _is_taken(plane, action):
                break  # the score tells
        if len(host.info.seats) > 1:
            await episode.leave(seat)

    async with anyio.create_task_group() as group:
        for number, seat in enumerate(host.info.seats):
            group.start_soon(play, number, seat)


async def _is_taken(plane: AgentPlane, action: Any) -> bool:
    names = [tool.name for tool in plane.tools if tool.name in plane.task_tools]
    if names == ["step"]:
        result = await plane.call_tool("step", {"action": action})
    else:
        result = await plane.call_tool(names[int(action)], {})
    return not result.is_error


_HEAD = (
    "| library | ids | games compared | equal | steps | different rewards | CPU ms a step, own loop | the hub |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
)


def _row(tally: Tally) -> str:
    own, hub = (1000 * seconds / max(1, tally.steps) for seconds in (tally.own_seconds, tally.hub_seconds))
    counts = f"{len(tally.ids)} | {tally.compared} of {tally.games} | {tally.equal} | {tally.steps:,}"
    return f"| {tally.name} | {counts} | {len(tally.rewards)} | {own:.2f} | {hub:.2f} |"
