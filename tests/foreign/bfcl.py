"""BFCL: the answer of each row of the published wheel and a perturbed one are played through the hub, and BFCL's own
evaluation judges the same calls, in a program that holds nothing of the hub. Writes `verdicts.jsonl`.
"""

import json
import os
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from rollouthub import BadRow, Deadlines, Message, Submission
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import ToolRequest, assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, chosen_of, find_importer
from rollouthub.protocols import EnvironmentHost, Episode
from rollouthub_servers.bfcl.bfcl_source import code_of
from rollouthub_servers.bfcl.categories import MULTI_TURN
from rollouthub_servers.bfcl.environment import Bfcl
from rollouthub_servers.bfcl.row import BfclRow, Call, read_rows
from rollouthub_servers.bfcl.shown_tools import shown_names
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock
from tests.foreign.bar import Bar, say
from tests.foreign.cpu_time import cpu_seconds
from tests.foreign.own_program import own_program

SOURCE = ImportSource("bfcl-eval==2026.3.23", "requirement")
OWN = Path(__file__).with_name("bfcl_own.py")
KINDS = ("answer", "perturbed")
JOBS, QUICK = 4, 4
UNPLAYABLE = frozenset({"multi_turn_miss_func_49"})
"""Its answer calls a function a turn before it is offered: BFCL's evaluation passes that, and no agent can play it."""
Turns = list[str | list[Call]]


@dataclass
class Spent:
    """CPU seconds of tool calls through the hub."""

    calls: int = 0
    hub: float = 0.0
    driver: float = 0.0


@dataclass
class Played:
    """What is being compared."""

    folder: Path
    data: Path
    through: dict[tuple[str, str], bool | None] = field(default_factory=dict[tuple[str, str], bool | None])
    rows: dict[str, BfclRow] = field(default_factory=dict[str, BfclRow])


def package(folder: Path, patterns: list[str]) -> Path:
    """The package of the rows; one that is there already stays."""
    importer, out = find_importer("bfcl"), folder / "package"
    if not out.exists():
        found = chosen_of(importer.look(SOURCE, {}, say), patterns, "row")
        for (reason,), count in Counter(each.reasons for each in found if each.reasons).items():
            say(f"refused, {count}: {reason}")
        importer.write(SOURCE, [each.id for each in found if each.runs], {"memory": "empty"}, out, Identity(), say)
    return next(out.glob("*_tasks.py"))


def turns_of(row: BfclRow, kind: str) -> Turns:
    """What is played: the row's answer, or one with a mistake."""
    turns: Turns = [turn if isinstance(turn, str) else [*turn] for turn in row.reference]
    if kind == "answer":
        return turns
    if "irrelevance" in row.category:
        return [[{row.tools[0].name if row.tools else "anything": {}}]]
    if row.category == "live_relevance":
        return ["None of the functions fits."]
    if row.category.startswith("memory"):
        return ["{'answer': 'I do not know', 'context': 'I do not know'}"]
    if row.category in MULTI_TURN:
        last = max(number for number, turn in enumerate(turns) if turn)
        return [*turns[:last], [], *turns[last + 1 :]]
    calls = turns[0]
    assert isinstance(calls, list)
    ((name, given),) = calls[0].items()
    wrong: Call = {name: {**given, next(iter(given)): "n0t-this"}} if given else {f"{name}_": {}}
    return [[wrong, *calls[1:]]]


def result_of(row: BfclRow, turns: Turns) -> Any:
    """The same as BFCL's files of results have it."""
    if row.category in MULTI_TURN:
        return [[[call] for call in turn] for turn in turns]
    if row.category.startswith("memory"):
        return [turns]
    return turns[0]


async def played(host: EnvironmentHost, episode: Episode, row: BfclRow, turns: Turns) -> bool | None:
    """Play turns through an agent's seat; the verdict."""
    seat = episode.seats["agent"]
    held = [tool for tools in row.held.values() for tool in tools]
    shown = {own: name for name, own in shown_names(tool.name for tool in (*row.tools, *held)).items()}
    transcript: list[Message] = []
    for turn in turns:
        for call in turn if isinstance(turn, list) else ():
            ((name, given),) = call.items()
            request = ToolRequest(id="c", name=shown.get(name, name), arguments=json.dumps(given))
            transcript.append(assistant("", request))
            await seat.call_tool(request.name, given)
        transcript.append(assistant(turn if isinstance(turn, str) else "Done."))
        if await seat.reply(transcript[-1:]) is None:
            break
    score = await episode.verify(Submission(transcript=tuple(transcript)))
    return score.passed


async def play_all(bar: Played, file: Path) -> Spent:
    """Every row, both ways."""
    found = find_environment(str(file))
    limiter, done = anyio.CapacityLimiter(JOBS), Counter[str]()
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:

        async def one(card: Any, row: BfclRow) -> None:
            for kind in KINDS:
                async with limiter, host.open(card, seed=0, deadlines=Deadlines()) as episode:
                    bar.through[row.id, kind] = await played(host, episode, row, turns_of(row, kind))
            done[row.category] += 1
            if sum(done.values()) % 250 == 0:
                say(f"{sum(done.values())} rows played")

        async with anyio.create_task_group() as group:
            async for card in host.tasks("test", 0):
                if not isinstance(card, BadRow) and card.public.id in bar.rows:
                    group.start_soon(one, card, bar.rows[card.public.id])
        return await cost(host, bar)


async def cost(host: EnvironmentHost, bar: Played) -> Spent:
    """What calls of simulated APIs cost through the hub: the answers of multi_turn_base, one after the other."""
    spent = Spent()
    runtime = Bfcl.runtimes[str(bar.data)]
    guard = (await runtime.shared()).pid
    assert guard is not None
    for row in bar.rows.values():
        if row.category != "multi_turn_base":
            continue
        card = await host.find_task("test", row.id, 0)
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            shown = {own: name for name, own in shown_names(tool.name for tool in row.tools).items()}
            driver, hub = cpu_seconds(guard), time.process_time()
            for call in (call for turn in row.reference if not isinstance(turn, str) for call in turn):
                ((name, given),) = call.items()
                await episode.seats["agent"].call_tool(shown[name], given)
                spent.calls += 1
            spent.hub += time.process_time() - hub
            spent.driver += cpu_seconds(guard) - driver
    return spent


def own_verdicts(bar: Played) -> tuple[dict[tuple[str, str], bool], dict[str, float]]:
    """BFCL's own verdicts on the same calls, and what its own loop spends."""
    code = code_of(bar.data, ForeignLock.read(bar.data / LOCK_FILE))
    results, verdicts = bar.folder / "results.jsonl", bar.folder / "own.jsonl"
    with results.open("w") as lines:
        for row in bar.rows.values():
            for kind in KINDS:
                result = result_of(row, turns_of(row, kind))
                lines.write(json.dumps({"id": row.id, "category": row.category, "kind": kind, "result": result}) + "\n")
    scratch = bar.folder / "scratch"
    scratch.mkdir(exist_ok=True)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(code), "BFCL_PROJECT_ROOT": str(scratch)}
    command = own_program(bar.data, OWN, str(results), str(verdicts))
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    *told, last = [json.loads(line) for line in verdicts.read_text().splitlines()]
    return {(each["id"], each["kind"]): each["valid"] for each in told}, last["loop"]


def table(bar: Played, own: dict[tuple[str, str], bool]) -> str:
    """What was seen, as docs/foreign.md has it."""
    lines = ["| category | rows | answers pass: BFCL | the hub | perturbed pass: BFCL | the hub | agree |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for category in [*dict.fromkeys(row.category for row in bar.rows.values()), "all"]:
        rows = [row for row in bar.rows.values() if category in (row.category, "all")]
        cells: list[object] = [category, len(rows)]
        for kind in KINDS:
            cells += [sum(own[row.id, kind] for row in rows), sum(bar.through[row.id, kind] is True for row in rows)]
        cells.append(sum(own[row.id, kind] == bar.through[row.id, kind] for row in rows for kind in KINDS))
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def measure(folder: Path, quick: bool) -> Bar:
    """Play all rows, or some of each category."""
    file = package(folder, [])
    bar, per = Played(folder, file.parent / "data"), Counter[str]()
    listed = 0
    for task in read_rows(bar.data, "test"):
        assert not isinstance(task, BadRow)
        row, listed = task.secret.row, listed + 1
        per[row.category] += 1
        if not quick or per[row.category] <= QUICK:
            bar.rows[task.id] = row
    own, loop = own_verdicts(bar)
    spent = anyio.run(play_all, bar, file)
    with (folder / "verdicts.jsonl").open("w") as lines:
        for (row, kind), passed in bar.through.items():
            lines.write(json.dumps({"id": row, "kind": kind, "hub": passed, "bfcl": own[row, kind]}) + "\n")
    found = Bar("BFCL v4", "verdicts on each row's answer and a perturbed one", listed, len(own))
    found.equal = sum(own[key] == bar.through[key] for key in own)
    found.own_ms = 1e3 * loop["seconds"] / loop["calls"]
    found.hub_ms = 1e3 * (spent.hub + spent.driver) / max(1, spent.calls)
    found.table = table(bar, own)
    for key in own:
        if own[key] != bar.through[key] and key[0] not in UNPLAYABLE:
            found.differences.append(f"{' '.join(key)}: BFCL {own[key]}, the hub {bar.through[key]}")
    return found
