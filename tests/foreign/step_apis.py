"""Holds imported step APIs to the libraries' own loops: the same ids, seeds and actions have to earn the same.

    hub import textarena textarena==0.7.4 -o DIR
    python -m tests.foreign.step_apis DIR [--seeds 0 1] [--most 200] [--match PATTERN] [--table FILE]

Each game is first played by the library's own loop (`step_loops`) with a scripted policy; its actions are then played
through the hub's tools, each by its seat, and the verifier is asked. Prints what differs, and a table.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import anyio

from rollouthub import Deadlines, Stop, Submission
from rollouthub.errors import HubError, VerifierError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.plugins.environments import find_environment
from rollouthub.protocols import AgentPlane, EnvironmentHost, Episode
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock, foreign_home
from rollouthub_servers.step_api.games import GAMES_FILE, NLTK_FOLDER, Catalogue, read_catalogue
from tests.foreign.cpu_time import cpu_seconds

LOOPS = Path(__file__).with_name("step_loops.py")
AT_ONCE = 4


@dataclass
class Tally:
    """What became of one package's games."""

    name: str
    ids: set[str] = field(default_factory=set[str])
    equal: set[str] = field(default_factory=set[str])
    other: dict[str, str] = field(default_factory=dict[str, str])
    """Id → how it differed, or why it could not be compared."""
    rewards: Counter[str] = field(default_factory=Counter[str])
    steps: int = 0
    own_seconds: float = 0.0
    hub_seconds: float = 0.0


def main() -> None:
    """Play, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="what `hub import` wrote")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--most", type=int, default=200, help="steps of a game; longer ones are cut, and said to be")
    parser.add_argument("--match", default="*", help="a pattern of ids")
    parser.add_argument("--table", type=Path, help="append a line of the table here")
    given = parser.parse_args()
    packages = [file.parent.parent for folder in given.folders for file in sorted(folder.rglob(GAMES_FILE))]
    tallies = [anyio.run(_compared, package, given.seeds, given.most, given.match) for package in packages]
    lines = [_row(tally) for tally in tallies]
    sys.stdout.write("\n".join((*_HEAD, *lines, "")))
    if given.table is not None:
        with given.table.open("a", encoding="utf-8") as table:
            table.write("\n".join((*lines, "")))
    sys.exit(1 if any(words.startswith("differs") for tally in tallies for words in tally.other.values()) else 0)


def module_of(package: Path) -> Path:
    """The module of a package that `hub import` wrote."""
    (file,) = package.glob("*_games.py")
    return file


async def _compared(package: Path, seeds: Sequence[int], most: int, match: str) -> Tally:
    file, data = module_of(package), package / "games"
    catalogue = read_catalogue(data)
    tally = Tally(f"{catalogue.library}, {catalogue.players} seat{'s' if catalogue.players > 1 else ''}")
    asked = [(game.id, game.players) for game in catalogue.games if fnmatchcase(game.id, match)]
    played = await anyio.to_thread.run_sync(_own_loops, data, catalogue, asked, seeds, most)
    tally.ids = {id for id, _ in asked}
    found = find_environment(str(file))
    config = configured(found, {"seeds": max(seeds) + 1})
    async with open_in_process(found.name, found.environment, config) as host:
        await _play_again(host, played, tally)
    silent = tally.ids - tally.equal - set(tally.other)
    tally.other |= dict.fromkeys(silent, "the library's own loop did not end in time")
    tally.equal -= set(tally.other)
    for id, words in sorted(tally.other.items()):
        sys.stdout.write(f"{id}: {words}\n")
    return tally


def _own_loops(
    data: Path, catalogue: Catalogue, asked: Sequence[tuple[str, int]], seeds: Sequence[int], most: int
) -> list[dict[str, Any]]:
    python = foreign_home().python(ForeignLock.read(data / LOCK_FILE).dependencies)
    words = [catalogue.library, json.dumps(asked), json.dumps(list(seeds)), str(most)]
    words += [json.dumps(catalogue.modules), json.dumps(catalogue.absent)]
    variables = {**os.environ, "PYTHONHASHSEED": "0", "NLTK_DATA": str(data / NLTK_FOLDER)}
    command = [str(python), str(LOOPS), *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=variables, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


async def _play_again(host: EnvironmentHost, played: Sequence[dict[str, Any]], tally: Tally) -> None:
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def again(line: dict[str, Any]) -> None:
        async with limiter:
            words = await _difference(host, line, tally)
        if words is None:
            tally.equal.add(line["id"])
        else:
            tally.other.setdefault(line["id"], words)

    before, began = cpu_seconds(), time.monotonic()
    async with anyio.create_task_group() as group:
        for line in played:
            if "failed" in line:
                tally.other.setdefault(line["id"], f"the library's own loop: {line['failed']}")
            else:
                group.start_soon(again, line)
    tally.hub_seconds = cpu_seconds() - before
    sys.stderr.write(f"{tally.name}: {len(played)} games in {time.monotonic() - began:.0f} s\n")


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
        return f"{'no reward, by both' if is_no_number else 'differs'}: {str(error)[:300]}"
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
    tally.rewards[str(line["rewards"])] += 1
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
    "| library | ids | equal to its own loop | games | steps | different rewards | CPU ms a step, own loop | hub |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
)


def _row(tally: Tally) -> str:
    steps = max(1, tally.steps)
    games, rewards = sum(tally.rewards.values()), len(tally.rewards)
    own, hub = (1000 * seconds / steps for seconds in (tally.own_seconds, tally.hub_seconds))
    counts = f"{len(tally.ids)} | {len(tally.equal)} | {games} | {tally.steps:,} | {rewards}"
    return f"| {tally.name} | {counts} | {own:.2f} | {hub:.2f} |"


if __name__ == "__main__":
    main()
