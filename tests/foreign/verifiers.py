"""The bar of verifiers: `python -m tests.foreign.verifiers FOLDER OUT [PATTERN…] [--set NAME=VALUE]`.

Imports every environment of FOLDER (the `environments/` of a checkout of the library), and says which list tasks. Of
each that does, plays rows through the hub with two scripted policies, and has the library's own loop and rubric score
the same messages, in a program that holds nothing of the hub. Prints the table of docs/foreign.md. Needs a package
index; some 20 s of CPU an environment.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp_types import TextContent

from rollouthub import Deadlines, Message, Submission
from rollouthub.errors import HubError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.messages import ToolRequest, assistant
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, chosen_of, find_importer
from rollouthub.protocols import Episode
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock, foreign_home
from rollouthub_servers.foreign.said_messages import all_said, said_of
from rollouthub_servers.foreign.tool_names import HUB_TOOLS
from rollouthub_servers.verifiers.env_record import CODE, EnvRecord
from rollouthub_servers.verifiers.env_record import ROWS as ROWS_FOLDER
from tests.foreign.cpu_time import cpu_seconds

OWN = Path(__file__).with_name("verifiers_own.py")
POLICIES = ("answers", "guesses")
MOST_TURNS = 6
ROWS = 20


@dataclass
class Compared:
    """What one environment's rewards are."""

    rows: int = 0
    equal: int = 0
    rewards: set[float] = field(default_factory=set[float])
    """Of those that are equal: where there is one alone, the agreement says little."""
    unscored: int = 0
    hub_ms: float = 0.0
    own_ms: float = 0.0


def say(text: str) -> None:
    """Tell how far it is."""
    sys.stderr.write(text + "\n")


def words(row: dict[str, Any], policy: str, turn: int) -> str:
    """What a policy says: the row's answer in every form that rubrics read, or something else."""
    info = row.get("info")
    known: Any = json.loads(info) if isinstance(info, str) else info or {}
    answer = row.get("answer") or row.get("expected") or row.get("word") or known.get("answer")
    if isinstance(known.get("answers"), list):
        answer = known["answers"][min(turn, len(known["answers"]) - 1)]
    if isinstance(known.get("ground_truths"), list):
        answer = "\n".join(known["ground_truths"][min(turn, len(known["ground_truths"]) - 1)])
    if policy == "guesses":
        answer = "7" if turn % 2 else "I do not know"
    tags = ("answer", "guess", "reversed_text", "alphabetical_sorted", "combined_alphabetical_sorted")
    forms = "\n".join(f"<{tag}>\n{answer}\n</{tag}>" for tag in tags)
    if row.get("info") and "answers" in known:
        return str(answer)
    return f"<think>Well.</think>\n<reasoning>\nWell.\n</reasoning>\n{forms}\n#### {answer}\n\\boxed{{{answer}}}"


def arguments_of(schema: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a tool, by the types that it names."""
    known: dict[str, Any] = {
        "integer": 1,
        "number": 1.5,
        "boolean": True,
        "string": str(row.get("word") or row.get("name") or row.get("answer") or "a"),
        "array": [],
    }
    return {name: known.get(each.get("type"), {}) for name, each in schema.get("properties", {}).items()}


async def played(episode: Episode, row: dict[str, Any], policy: str) -> tuple[list[Message], int, Any]:
    """Play one row; the transcript, how long its opening is, and its score or why it has none."""
    seat = episode.seats["agent"]
    transcript, told = list(seat.messages), seat.messages
    opening = len(transcript)
    for turn in range(MOST_TURNS):
        tools = [tool for tool in seat.tools if tool.name in seat.task_tools]
        asked = [tool for tool in tools if tool.name in told[-1].text] or tools
        if turn == 0 and tools:
            chosen = asked if policy == "answers" else asked[:1]
            requests = [
                ToolRequest(
                    id=f"c{number}", name=tool.name, arguments=json.dumps(arguments_of(dict(tool.input_schema), row))
                )
                for number, tool in enumerate(chosen)
            ]
            transcript.append(assistant("", *requests))
            for request in requests:
                result = await seat.call_tool(request.name, json.loads(request.arguments))
                text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
                transcript.append(Message(role="tool", content=text, tool_call_id=request.id))
            continue
        transcript.append(assistant(words(row, policy, turn)))
        heard = await seat.reply(transcript[-1:])
        if heard is None:
            break
        told = tuple(heard)
        transcript += heard
    try:
        return transcript, opening, await episode.verify(Submission(transcript=tuple(transcript)))
    except HubError as error:
        return transcript, opening, error


def plain(message: Message) -> dict[str, Any]:
    """A message as the library has it."""
    kept = {"role": message.role, "tool_call_id": message.tool_call_id}
    return {**said_of(message), **{key: value for key, value in kept.items() if value is not None}}


async def through_hub(file: Path, record: EnvRecord, split: str) -> tuple[list[dict[str, Any]], float]:
    """Rows of an environment, each by both policies, and the CPU seconds of this process and its drivers."""
    found = find_environment(str(file))
    lines = (file.parent / "data" / ROWS_FOLDER / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()[:ROWS]
    episodes: list[dict[str, Any]] = []
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        began = cpu_seconds()
        for number, line in enumerate(lines):
            card = await host.find_task(split, f"{split}-{number}", 0)
            row = json.loads(line)
            for policy in POLICIES:
                async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
                    transcript, opening, score = await played(episode, row, policy)
                got: dict[str, Any] = {"row": row, "said": all_said(transcript[opening:], HUB_TOOLS), "seed": 0}
                got["conversation"] = [[n >= opening, plain(message)] for n, message in enumerate(transcript)]
                if isinstance(score, HubError):
                    got["error"] = str(score)
                else:
                    got |= {"reward": score.reward, "metrics": score.metrics}
                episodes.append(got)
        used = cpu_seconds() - began
    return episodes, used


def by_itself(file: Path, record: EnvRecord, episodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The library's own rewards of the same messages."""
    data = (file.parent / "data").absolute()
    lock = ForeignLock.read(data / LOCK_FILE)
    job = {
        "kind": record.kind,
        "module": record.module,
        "args": record.args,
        "judge": record.judge,
        "path": [str(data / CODE)],
        "datasets": {name: str(data / folder) for name, folder in record.datasets.items()},
        "absent": list(record.absent),
        "episodes": episodes,
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as written:
        json.dump(job, written)
        written.flush()
        command = (str(foreign_home().python(lock.dependencies)), "-P", str(OWN), written.name)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{record.name}: the library's own program failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compared(file: Path) -> Compared:
    """Both sides' rewards of one environment."""
    record = EnvRecord.read(str(file.parent / "data"))
    episodes, used = anyio.run(through_hub, file, record, next(iter(record.splits)))
    own = by_itself(file, record, episodes)
    found = Compared(rows=len(episodes), hub_ms=1e3 * used / len(episodes))
    found.own_ms = 1e3 * sum(each["cpu"] for each in own) / len(own)
    for episode, theirs in zip(episodes, own, strict=True):
        if "error" in episode:
            found.unscored += 1
            say(f"{record.name}: unscored: {episode['error'][:300]}")
        elif (episode["reward"], episode["metrics"]) == (theirs["reward"], theirs["metrics"]):
            found.equal += 1
            found.rewards.add(episode["reward"])
        else:
            said = {"hub": [episode["reward"], episode["metrics"]], "own": [theirs["reward"], theirs["metrics"]]}
            say(f"{record.name}: differs: {json.dumps(said)}")
    return found


def main() -> None:
    """Import, play, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=JSON", help="a setting of the import")
    given = parser.parse_args()
    settings = {name: json.loads(value) for name, _, value in (each.partition("=") for each in given.set)}
    importer, source = find_importer("verifiers"), ImportSource.of(str(given.folder))
    say("looking")
    found = chosen_of(importer.look(source, settings, say), given.patterns, "environment")
    lines = ["| environment | tasks | rewards | equal | different rewards | ms CPU a rollout, own | hub |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for each in found:
        if not each.runs:
            say(f"refused: {each.id}: {'; '.join(each.reasons)}")
            continue
        out = given.out / each.id
        if not out.exists():
            importer.write(source, [each.id], settings, out, Identity(), say)
        result = compared(next(out.glob("*_env.py")))
        counts = f"{result.rows} | {result.equal} | {len(result.rewards)}"
        lines.append(f"| {each.id} | {each.facts['tasks']} | {counts} | {result.own_ms:.1f} | {result.hub_ms:.1f} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
