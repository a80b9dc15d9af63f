"""τ²-bench: of each task of a checkout its own actions (`gold`), the same without the last (`short`) and none (`idle`)
are played through the hub with a scripted user, and τ²-bench's own evaluator scores the same calls in a program that
holds nothing of the hub. A judge that agrees to everything stands in for assertions in words, on both sides. Writes
`verdicts.jsonl`.
"""

import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import anyio

from rollouthub import BadRow, Deadlines, Model, ModelReply, ModelRequest, Submission
from rollouthub.errors import VerifierError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, chosen_of, find_importer
from rollouthub.protocols import EnvironmentHost, Episode
from rollouthub_servers.tau2.checkout import CODE
from rollouthub_servers.tau2.row import GoldAction, Tau2Row, read_rows
from rollouthub_servers.tau2.tau2_environment import Tau2
from tests.foreign.bar import Bar, checkout_of, say
from tests.foreign.cpu_time import cpu_seconds
from tests.foreign.own_program import own_program

OWN = Path(__file__).with_name("tau2_own.py")
KINDS = ("gold", "short", "idle")
JOBS, QUICK = 2, 8
RETRIEVAL = "bm25_grep"
WORDS = "Goodbye."
Rewards = dict[tuple[str, str], float | None]
"""By task and way; None where there is no score, as τ²-bench's evaluator fails."""


class AgreeableJudge:
    """Says yes to every criterion."""

    name = "agreeable"

    async def generate(self, request: ModelRequest) -> ModelReply:
        """A verdict that holds all keys that may be asked for is refused, so those asked for are read."""
        asked = "\n".join(message.text for message in request.messages)
        keys = [f"a{n}" for n in range(1, 60) if f'"a{n}"' in asked or f"- a{n} (" in asked]
        return ModelReply(assistant(json.dumps({"reasoning": "", **dict.fromkeys(keys, True)})))


def package(checkout: str, folder: Path, patterns: list[str]) -> Path:
    """The package of the tasks; one that is there already stays."""
    importer, out, source = find_importer("tau2"), folder / "package", ImportSource(checkout, "folder")
    if not out.exists():
        found = chosen_of(importer.look(source, {}, say), patterns, "task")
        for reasons, count in Counter(each.reasons for each in found if each.reasons).items():
            say(f"refused, {count}: {'; '.join(reasons)}")
        chosen = [each.id for each in found if each.runs]
        importer.write(source, chosen, {"user": "scripted"}, out, Identity(), say)
    return next(out.glob("*_tasks.py"))


def actions_of(row: Tau2Row, kind: str) -> list[GoldAction]:
    """What is played of a task's own actions."""
    actions = list(row.criteria.actions or ())
    return {"gold": actions, "short": actions[:-1], "idle": []}[kind]


def words_of(row: Tau2Row, kind: str) -> str:
    """What the agent says at last."""
    return WORDS if kind == "idle" else " ".join(row.criteria.communicate_info or ()) or WORDS


async def played(episode: Episode, row: Tau2Row, kind: str) -> float | None:
    """Play through the agent's seat, the user's part by the user's own hand; the reward."""
    environment: Any = getattr(episode, "environment")  # noqa: B009  # the user's part cannot be reached from a seat
    seat = episode.seats["agent"]
    for action in actions_of(row, kind):
        given = dict(action.arguments)
        if action.requestor == "user":
            await environment._use("user", action.name, given)
        else:
            await seat.call_tool(action.name, given)
    environment._caller._reason, environment._caller._parts = None, []  # the user hangs up at the next word
    await seat.reply([assistant(words_of(row, kind))])
    try:
        return (await episode.verify(Submission())).reward
    except VerifierError:
        return None


async def play_all(rows: dict[str, Tau2Row], file: Path) -> tuple[Rewards, float]:
    """Every task, in every way."""
    found = find_environment(str(file))
    config = configured(found, {"retrieval": RETRIEVAL, "most_errors": 1000})
    limiter, rewards = anyio.CapacityLimiter(JOBS), Rewards()
    models: dict[str, Model] = {"judge": AgreeableJudge()}
    async with open_in_process(found.name, found.environment, config, models) as host:

        async def one(card: Any, row: Tau2Row) -> None:
            for kind in KINDS:
                async with limiter, host.open(card, seed=0, deadlines=Deadlines()) as episode:
                    rewards[row.id, kind] = await played(episode, row, kind)
            if len(rewards) % 300 < len(KINDS):
                say(f"{len(rewards) // len(KINDS)} tasks played")

        async with anyio.create_task_group() as group:
            async for card in host.tasks("test", 0):
                assert not isinstance(card, BadRow)
                if card.public.id in rows:
                    group.start_soon(one, card, rows[card.public.id])
        return rewards, await cost(host, rows)


async def cost(host: EnvironmentHost, rows: dict[str, Tau2Row]) -> float:
    """CPU ms of the agent's calls through the hub and its process: the actions of some hundred tasks, in turn."""
    (runtime,) = Tau2.runtimes.values()
    guard = (await runtime.shared()).pid
    assert guard is not None
    calls, hub_seconds, driver_seconds = 0, 0.0, 0.0
    for row in list(rows.values())[:: max(1, len(rows) // 100)]:
        card = await host.find_task("test", row.id, 0)
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            driver, hub = cpu_seconds(guard), time.process_time()
            for action in actions_of(row, "gold"):
                if action.requestor == "assistant":
                    await episode.seats["agent"].call_tool(action.name, dict(action.arguments))
                    calls += 1
            hub_seconds += time.process_time() - hub
            driver_seconds += cpu_seconds(guard) - driver
    say(f"{calls} calls: {hub_seconds:.2f} s CPU in the hub, {driver_seconds:.2f} s in τ²-bench's process")
    return 1e3 * (hub_seconds + driver_seconds) / max(1, calls)


def own_rewards(rows: dict[str, Tau2Row], folder: Path, data: Path) -> tuple[Rewards, float]:
    """τ²-bench's own rewards of the same calls."""
    jobs, verdicts = folder / "jobs.jsonl", folder / "own.jsonl"
    with jobs.open("w") as lines:
        for row in rows.values():
            for kind in KINDS:
                calls = [action.model_dump() for action in actions_of(row, kind)]
                job = {"id": row.id, "kind": kind, "domain": row.domain, "task": row.task, "calls": calls}
                lines.write(json.dumps({**job, "words": words_of(row, kind)}) + "\n")
    code = (data / CODE).absolute()
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(code / "src"), "TAU2_DATA_DIR": str(code / "data")}
    command = own_program(data, OWN, str(code / "src"), RETRIEVAL, str(jobs), str(verdicts))
    subprocess.run(command, env=environ, check=True)
    *told, spent = [json.loads(line) for line in verdicts.read_text().splitlines()]
    milliseconds = 1e3 * spent["seconds"] / max(1, spent["calls"])
    return {(each["id"], each["kind"]): each["reward"] for each in told}, milliseconds


def table(rows: dict[str, Tau2Row], hub: Rewards, own: Rewards) -> str:
    """What was seen, as docs/foreign.md has it."""
    lines = ["| domain | tasks | own actions earn 1: τ² | the hub | without the last: τ² | the hub | none: τ² | "]
    lines[0] += "the hub | agree |"
    lines.append("| " + " | ".join(["---"] * 9) + " |")
    for domain in [*dict.fromkeys(row.domain for row in rows.values()), "all"]:
        names = [name for name, row in rows.items() if domain in (row.domain, "all")]
        cells: list[object] = [domain, len(names)]
        for kind in KINDS:
            cells += [sum(rewards[name, kind] == 1.0 for name in names) for rewards in (own, hub)]
        cells.append(sum(own[name, kind] == hub[name, kind] for name in names for kind in KINDS))
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def measure(folder: Path, quick: bool) -> Bar:
    """Play all tasks, or some of each domain."""
    file = package(str(checkout_of("ROLLOUTHUB_TAU2_CHECKOUT", "τ²-bench")), folder, [])
    data, rows, per, listed = file.parent / "data", dict[str, Tau2Row](), Counter[str](), 0
    for task in read_rows(data, "test", with_judge=True):
        assert not isinstance(task, BadRow)
        row, listed = task.secret.row, listed + 1
        per[row.domain] += 1
        if not quick or per[row.domain] <= QUICK:
            rows[task.id] = row
    own, own_ms = own_rewards(rows, folder, data)
    hub, hub_ms = anyio.run(play_all, rows, file)
    with (folder / "verdicts.jsonl").open("w") as lines:
        for (name, kind), reward in hub.items():
            lines.write(json.dumps({"id": name, "kind": kind, "hub": reward, "tau2": own[name, kind]}) + "\n")
    found = Bar("τ²-bench", "rewards of each task's own actions, without the last, and of none", listed, len(own))
    found.equal = sum(own[key] == hub[key] for key in own)
    found.own_ms, found.hub_ms, found.table = own_ms, hub_ms, table(rows, hub, own)
    for key in own:
        if own[key] != hub[key]:
            found.differences.append(f"{' '.join(key)}: τ² {own[key]}, the hub {hub[key]}")
    return found
