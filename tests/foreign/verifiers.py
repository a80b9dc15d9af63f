"""verifiers: rows of environments are played through the hub with two scripted policies, and the library's own loop
and rubric (tasksets: `Task.score`) score the same messages, in a program that holds nothing of the hub.

Environments with `load_environment` are those of the release 0.2.0, tasksets those of a later one: two checkouts are
needed. Data sets that environments would download are made, in the shape of the published ones.
"""

import json
import os
import random
import subprocess
import tempfile
from collections.abc import Sequence
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
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub.protocols import Episode
from rollouthub_servers.foreign.said_messages import all_said, said_of
from rollouthub_servers.foreign.tool_names import HUB_TOOLS
from rollouthub_servers.verifiers.env_record import CODE, EnvRecord
from rollouthub_servers.verifiers.env_record import ROWS as ROWS_FOLDER
from rollouthub_servers.verifiers.env_source import EnvFolder, find_envs
from tests.foreign.bar import Bar, Missing, say
from tests.foreign.cpu_time import cpu_seconds
from tests.foreign.own_program import own_program

OWN = Path(__file__).with_name("verifiers_own.py")
POLICIES = ("answers", "guesses")
MOST_TURNS = 6
ROWS = 20
VARIABLE = "ROLLOUTHUB_VERIFIERS"
NEEDS = f"{VARIABLE}=FOLDER{os.pathsep}FOLDER, the releases 0.2.0 and one with `environments/glossary`"
KINDS = {"v0": "`load_environment`", "v1": "`Taskset`"}
ENVIRONMENTS = {
    "gsm8k": "v0",
    "reverse-text": "v0",
    "alphabet-sort": "v0",
    "doublecheck": "v0",
    "tool-test": "v0",
    "color-codeword": "v1",
    "glossary": "v1",
}
"""Those that list tasks without a network, and the interface that is compared."""
READ_BY = {
    "gsm8k": ("openai/gsm8k",),
    "reverse-text": ("PrimeIntellect/Reverse-Text-RL",),
    "alphabet-sort": ("kalomaze/alphabetic-arxiv-authors-it1",),
    "doublecheck": ("chiayewken/competition_math",),
}
CONFIGS = {"openai/gsm8k": "main"}
FIRST = ("Ada", "Bela", "Chidi", "Dana", "Emil", "Farah", "Gita", "Hugo")
LAST = ("Abel", "Banach", "Cantor", "Dirac", "Euler", "Fermat", "Gauss", "Hilbert", "Ito", "Jacobi", "Klein", "Lie")


@dataclass
class Compared:
    """What one environment's rewards are."""

    rows: int = 0
    equal: int = 0
    rewards: set[float] = field(default_factory=set[float])
    """Of those that are equal: where there is one alone, the agreement says little."""
    listed: int = 0
    turns: int = 0
    """Messages of the agents."""
    hub_ms: float = 0.0
    own_ms: float = 0.0
    differences: list[str] = field(default_factory=list[str])


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


async def through_hub(file: Path, split: str, most: int) -> tuple[list[dict[str, Any]], float]:
    """Rows of an environment, each by both policies, and the CPU seconds of this process and its drivers."""
    found = find_environment(str(file))
    lines = (file.parent / "data" / ROWS_FOLDER / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()[:most]
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
        done = subprocess.run(own_program(data, OWN, written.name), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{record.name}: the library's own program failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compared(file: Path, most: int) -> Compared:
    """Both sides' rewards of one environment."""
    record = EnvRecord.read(str(file.parent / "data"))
    episodes, used = anyio.run(through_hub, file, next(iter(record.splits)), most)
    own = by_itself(file, record, episodes)
    found = Compared(rows=len(episodes), hub_ms=1e3 * used / len(episodes))
    found.listed = sum(record.splits.values())
    found.turns = sum(len(each["said"]) for each in episodes)
    found.own_ms = 1e3 * sum(each["cpu"] for each in own) / len(own)
    for episode, theirs in zip(episodes, own, strict=True):
        if "error" in episode:
            found.differences.append(f"{record.name}: unscored: {episode['error'][:300]}")
        elif (episode["reward"], episode["metrics"]) == (theirs["reward"], theirs["metrics"]):
            found.equal += 1
            found.rewards.add(episode["reward"])
        else:
            said = {"hub": [episode["reward"], episode["metrics"]], "own": [theirs["reward"], theirs["metrics"]]}
            found.differences.append(f"{record.name}: {json.dumps(said)}")
    return found


def made_datasets(folder: Path) -> dict[str, str]:
    """Folders with rows in the shape of the data sets that environments read, by the names of these."""
    drawn, rows = random.Random(7), dict[str, list[dict[str, Any]]]()
    sums = [(drawn.randint(2, 99), drawn.randint(2, 99)) for _ in range(ROWS * 2)]
    asked = [(f"What is {first} + {second}?", first + second) for first, second in sums]
    rows["openai/gsm8k"] = [{"question": words, "answer": f"I add.\n#### {total}"} for words, total in asked]
    rows["chiayewken/competition_math"] = [
        {"problem": words, "solution": f"It is $\\boxed{{{total}}}$."} for words, total in asked
    ]
    rows["PrimeIntellect/Reverse-Text-RL"] = [{"prompt": f"{words} {total} apples"} for words, total in asked]
    rows["kalomaze/alphabetic-arxiv-authors-it1"] = [
        {"names": [f"{drawn.choice(FIRST)} {drawn.choice(LAST)}" for _ in range(20)]} for _ in asked
    ]
    for name, lines in rows.items():
        place = folder / name.replace("/", "_")
        place.mkdir(parents=True, exist_ok=True)
        for split in ("train", "test"):
            (place / f"{split}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        files = "".join(f"  - split: {split}\n    path: {split}.jsonl\n" for split in ("train", "test"))
        config = CONFIGS.get(name, "default")
        (place / "README.md").write_text(f"---\nconfigs:\n- config_name: {config}\n  data_files:\n{files}---\n")
    return {name: str(folder / name.replace("/", "_")) for name in rows}


def found_in(checkouts: Sequence[Path]) -> dict[str, EnvFolder]:
    """The environments to play.

    Raises:
        Missing: no checkout has one of them.
    """
    named = [env for each in reversed(checkouts) for env in find_envs(each) if env.name in ENVIRONMENTS]
    there = {(env.name, env.kind()): env for env in named}
    for name, kind in ENVIRONMENTS.items():
        if (name, kind) not in there:
            raise Missing(f"no checkout of {VARIABLE} has {name!r} with {KINDS[kind]}: {NEEDS}")
    return {name: there[name, kind] for name, kind in ENVIRONMENTS.items()}


def measure(folder: Path, quick: bool) -> Bar:
    """Import, play, compare."""
    named = [Path(each) for each in os.environ.get(VARIABLE, "").split(os.pathsep) if each]
    if not named or not all(each.is_dir() for each in named):
        raise Missing(f"it needs checkouts of verifiers: {NEEDS}")
    bar = Bar("verifiers", "rewards and metrics of two policies with its own loop and rubric")
    lines = ["| environment | interface | rewards | equal | different rewards | CPU ms a rollout, its own | the hub |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    datasets, turns, own_ms, hub_ms = made_datasets(folder / "datasets"), 0, 0.0, 0.0
    for name, env in list(found_in(named).items())[:: 3 if quick else 1]:
        own = {each: place for each, place in datasets.items() if each in READ_BY.get(name, ())}
        settings: dict[str, Any] = {"datasets": own} if own else {}
        importer, source, out = find_importer("verifiers"), ImportSource.of(str(env.folder)), folder / name
        if not out.exists():
            importer.write(source, [name], settings, out, Identity(), say)
        say(f"{name}: playing")
        result = compared(next(out.glob("*_env.py")), 2 if quick else ROWS)
        bar.listed, bar.compared = bar.listed + result.listed, bar.compared + result.rows
        bar.equal += result.equal
        bar.differences += result.differences
        turns, own_ms = turns + result.turns, own_ms + result.own_ms * result.rows
        hub_ms += result.hub_ms * result.rows
        counts = f"{result.rows} | {result.equal} | {len(result.rewards)}"
        mark = " (*)" if own else ""
        cost = f"{result.own_ms:.0f} | {result.hub_ms:.0f}"
        lines.append(f"| {name}{mark} | {KINDS[ENVIRONMENTS[name]]} | {counts} | {cost} |")
    bar.own_ms, bar.hub_ms, bar.table = own_ms / turns, hub_ms / turns, "\n".join(lines)
    return bar
