"""The bar of NeMo Gym: `python -m tests.foreign.nemo_gym FOLDER [--jobs N] [PATTERN…]`.

Imports every server of the published wheel that can be imported, scores each of its recorded rollouts through the hub,
and again by asking the same server's `/verify` directly, with a client of this file alone. Writes `results.jsonl`, a
line a server, and prints the table of docs/foreign.md. Needs a package index; takes half an hour on two cores.
"""

import argparse
import json
import sys
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

import aiohttp
import anyio

from rollouthub.analysis.scoring.batch import BatchScorer, BatchSettings
from rollouthub.analysis.scoring.batch_tally import BatchTally
from rollouthub.analysis.scoring.line_files import LineWriter, input_lines
from rollouthub.analysis.scoring.line_source import LineSource
from rollouthub.errors import HubError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub_servers.foreign.requirements import foreign_home
from rollouthub_servers.nemo_gym import NemoGym
from rollouthub_servers.nemo_gym.server_folder import ServerFolder, find_servers

SOURCE = ImportSource("nemo-gym==0.7.0", "requirement")
SECONDS = 300.0
CLOSE = 1e-9


def say(text: str) -> None:
    """Tell how far it is."""
    sys.stderr.write(text + "\n")


def packages(folder: Path, patterns: list[str]) -> dict[str, Path]:
    """A package for each server that can be imported; those that are there already stay."""
    importer = find_importer("nemo_gym")
    found = importer.look(SOURCE, {"judge": "none"})
    say(f"{len(found)} servers are listed, {sum(each.facts['tasks'] != '0' for each in found)} with tasks")
    made: dict[str, Path] = {}
    for each in found:
        if patterns and not any(fnmatchcase(each.id, pattern) for pattern in patterns):
            continue
        out = folder / "packages" / each.id
        try:
            if each.runs and not out.exists():
                importer.write(SOURCE, [each.id], {"judge": "none"}, out, Identity())
        except HubError as error:
            keep(folder, {"server": each.id, "state": "not installed", "why": str(error)[-300:]})
            continue
        if not each.runs:
            keep(folder, {"server": each.id, "state": "refused", "why": "; ".join(each.reasons)})
        else:
            made[each.id] = next(out.glob("*_server.py"))
    return made


def keep(folder: Path, result: dict[str, Any]) -> None:
    """Write a server's line."""
    say(f"{result['server']}: {result['state']} {json.dumps(result.get('counts', result.get('why', '')))[:160]}")
    with (folder / "results.jsonl").open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(result) + "\n")


async def judged(folder: Path, server: ServerFolder, package: Path) -> None:
    """One server: its recorded rollouts by the hub, by itself, and as they were recorded."""
    found = find_environment(str(package))
    result: dict[str, Any] = {"server": server.name}
    try:
        async with open_in_process(found.name, found.environment, configured(found, {})) as host:
            rows: list[dict[str, Any]] = []
            for file in server.rollouts():
                output = folder / "scored" / server.name / file.name
                output.parent.mkdir(parents=True, exist_ok=True)
                tally = BatchTally(server.name)
                with input_lines(str(file)) as lines, output.open("wb") as stream:
                    source = LineSource(lines)
                    settings = BatchSettings(host.info.splits[0], concurrency=2, skip_bad=True)
                    await BatchScorer(host, settings, source, file.name, tally).score(LineWriter(stream, str(output)))
                runtime = NemoGym.runtimes[str(package.parent / "data")]
                process = await runtime.shared()
                texts = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
                scored = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
                async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(process.socket))) as http:
                    schema = await (await http.get("http://server/openapi.json")).json()
                for text, through in zip(texts, scored, strict=True):
                    line = json.loads(text)
                    own = await own_verdict(process.socket, schema, line, examples(server))
                    score = through["score"]
                    rows.append(
                        {
                            "hub": None if score is None else score["reward"],
                            "outcome": through["outcome"],
                            "why": through.get("error"),
                            "own": own,
                            "recorded": line.get("reward"),
                        }
                    )
        result |= {"state": "verified", "rows": rows, "counts": Counter(kind_of(row) for row in rows)}
    except (HubError, OSError, ValueError, aiohttp.ClientError) as error:
        result |= {"state": "does not start", "why": str(error)[-400:]}
    finally:
        for runtime in NemoGym.runtimes.values():
            runtime.close()
    keep(folder, result)


def kind_of(row: dict[str, Any]) -> str:
    """What became of a row."""
    if row["outcome"] == "bad_row":
        return "unmatched"
    if isinstance(row["own"], str):
        return "neither scores" if row["hub"] is None else "only the hub scores"
    if row["hub"] is None:
        return "only the server scores"
    if row["hub"] != row["own"]:
        return "differs"
    if row["recorded"] is None or abs(row["recorded"] - row["own"]) > CLOSE:
        return "as the server, recorded otherwise"
    return "as the server and as recorded"


def examples(server: ServerFolder) -> list[dict[str, Any]]:
    """The server's rows, of the split that the hub reads."""
    file = next(iter(server.rows().values()))
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def plain(value: Any) -> list[Any]:
    """An input without what recording adds."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    items: list[Any] = []
    for item in value:
        kept = {key: each for key, each in item.items() if each is not None and (key, each) != ("type", "message")}
        content = kept.get("content")
        parts = cast(list[dict[str, Any]], content) if isinstance(content, list) else []
        if parts and all(set(part) <= {"type", "text"} for part in parts):
            kept["content"] = "\n".join(part["text"] for part in parts)
        items.append(kept)
    return items


async def own_verdict(socket: Path, schema: Any, line: dict[str, Any], rows: list[dict[str, Any]]) -> float | str:
    """What the server's own verifier says of a recorded line, asked directly in a session of its own."""
    if "input" not in (line.get("responses_create_params") or {}):
        return "it records no request"
    wanted = plain(line["responses_create_params"]["input"])
    matching = [row for row in rows if plain(row["responses_create_params"]["input"]) == wanted]
    if len(matching) != 1:
        return f"{len(matching)} rows ask the same"
    (row,) = matching
    post = schema["paths"]["/verify"]["post"]
    models = schema["components"]["schemas"]
    asked = models[post["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]]
    shown = post["responses"]["200"]["content"]["application/json"]["schema"].get("$ref", "").rpartition("/")[2]
    twice = set(models.get(shown, {}).get("properties", {})) - set(asked["properties"])
    left_out = {"response", "reward", "agent_ref", "_ng_task_index", "_ng_rollout_index", "_ng_rollout_id"} | twice
    params = without_nulls(row["responses_create_params"])
    response = without_nulls(line["response"])
    if "input_tokens" not in response.get("usage", {"input_tokens": 0}):
        del response["usage"]
    for details in (response.get("usage", {}).get("input_tokens_details"),):
        if details is not None:
            details.setdefault("cache_write_tokens", 0)
    more = {"id": "r", "created_at": 0.0, "model": "m", "object": "response", "parallel_tool_calls": True}
    more |= {"tool_choice": params.get("tool_choice", "auto"), "tools": params.get("tools", [])}
    body = {key: value for key, value in row.items() if key not in left_out}
    body |= {"responses_create_params": params, "response": more | response}
    seed = {key: value for key, value in row.items() if key not in left_out - twice}
    route = "reset" if "/reset" in schema["paths"] and "/step" in schema["paths"] else "seed_session"
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    jar = aiohttp.CookieJar(unsafe=True)
    connector = aiohttp.UnixConnector(str(socket))
    try:
        async with aiohttp.ClientSession(connector=connector, cookie_jar=jar, timeout=timeout) as http:
            async with http.post(f"http://server/{route}", json=seed) as answer:
                if answer.status != 200:
                    return f"{route} answered {answer.status}"
            async with http.post("http://server/verify", json=body) as answer:
                text = await answer.text()
                if answer.status != 200:
                    return f"verify answered {answer.status}: {text[:200]}"
                value = json.loads(text)
                return "masked" if value.get("mask_sample") else float(value["reward"])
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def without_nulls(value: Any) -> Any:
    """JSON without its nulls."""
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        return {key: without_nulls(each) for key, each in fields.items() if each is not None}
    return [without_nulls(each) for each in cast(list[Any], value)] if isinstance(value, list) else value


def table(folder: Path) -> str:
    """What was seen, as docs/foreign.md has it."""
    results = [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    latest = {result["server"]: result for result in results}
    lines = ["| server | rows | as the server | as recorded, too | unmatched | neither scores | differs |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    total: Counter[str] = Counter()
    whole = 0
    for name, result in sorted(latest.items()):
        if result["state"] != "verified":
            continue
        counts = Counter[str](result["counts"])
        total += counts
        same = counts["as the server and as recorded"] + counts["as the server, recorded otherwise"]
        wrong = counts["differs"] + counts["only the hub scores"] + counts["only the server scores"]
        whole += bool(same) and not wrong
        cells = (
            name,
            len(result["rows"]),
            same,
            counts["as the server and as recorded"],
            counts["unmatched"],
            counts["neither scores"],
            wrong,
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    states = Counter(result["state"] for result in latest.values())
    lines.append(f"\nServers: {dict(states)}; with rows scored as by the server itself and none otherwise: {whole}.")
    lines.append(f"Rows: {dict(total)}.")
    return "\n".join(lines)


async def run(folder: Path, jobs: int, patterns: list[str]) -> None:
    """All servers, several at once."""
    made = await anyio.to_thread.run_sync(packages, folder, patterns)
    home = foreign_home()
    root = home.unpacked(home.wheel(SOURCE.text))
    limiter = anyio.Semaphore(jobs)
    done = {json.loads(line)["server"] for line in (folder / "results.jsonl").read_text().splitlines()}

    async def one(server: ServerFolder) -> None:
        async with limiter:
            command = [sys.executable, "-P", "-m", "tests.foreign.nemo_gym", str(folder), "--one", server.name]
            with anyio.move_on_after(2 * SECONDS) as scope:
                await anyio.run_process(command, check=False, stdout=None, stderr=None)
            if scope.cancelled_caught:
                keep(folder, {"server": server.name, "state": "does not start", "why": "it took too long"})

    async with anyio.create_task_group() as group:
        for server in find_servers(root):
            if server.name in made and server.name not in done:
                group.start_soon(one, server)
    sys.stdout.write(table(folder) + "\n")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--one")
    given = parser.parse_args()
    folder: Path = given.folder.absolute()
    (folder / "packages").mkdir(parents=True, exist_ok=True)
    (folder / "results.jsonl").touch()
    if given.one is None:
        anyio.run(run, folder, given.jobs, given.patterns)
        return
    home = foreign_home()
    root = home.unpacked(home.wheel(SOURCE.text))
    (server,) = [each for each in find_servers(root) if each.name == given.one]
    anyio.run(judged, folder, server, next((folder / "packages" / server.name).glob("*_server.py")))


if __name__ == "__main__":
    main()
