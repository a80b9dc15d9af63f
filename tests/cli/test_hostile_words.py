"""No face of the command line prints what a task, an id or a run wrote as a command to the terminal, or as markup."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from tests.store.records import record, write

from .conftest import Hub

HOSTILE = (
    "a\x1b]52;c;b3duZWQ=\x07\x1b]0;title\x07\x1b[2J\x1bPq#0\x1b\\\x9b31m\x9d8;;http://x\x9c\u202egnp\u2066\x07\x08"
    "[link=http://evil][red]x[/red][/link] :skull:\nforged line"
)
DRIVING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def hostile(tmp_path: Path) -> str:
    """A run whose every name is hostile."""
    anyio.run(write, tmp_path / "runs" / "other", [record("g-0"), record("g-1")])
    anyio.run(write, tmp_path / "runs" / "hostile", [record("g-0"), record("g-1")])
    words = dict.fromkeys(("rollout_id", "group_id", "environment", "split", "task_id", "source"), HOSTILE)
    with closing(sqlite3.connect(tmp_path / "runs" / "hostile" / "run.db")) as connection, connection:
        for name, word in words.items():
            connection.execute(f"UPDATE rollouts SET {name} = ? || id", (word,))
        for body in connection.execute("SELECT id, body FROM rollouts").fetchall():
            kept = json.loads(body[1])
            kept["rollout_id"] = kept["group_id"] = f"{HOSTILE}{body[0]}"
            kept["task"]["id"] = kept["environment"]["name"] = kept["agent"]["name"] = HOSTILE
            connection.execute("UPDATE rollouts SET body = ? WHERE id = ?", (json.dumps(kept), body[0]))
        (resolved,) = connection.execute("SELECT value FROM meta WHERE key = 'resolved'").fetchone()
        request = {**json.loads(resolved), "request": {"agent": HOSTILE, "model": HOSTILE, "environments": [HOSTILE]}}
        connection.execute("UPDATE meta SET value = ? WHERE key = 'resolved'", (json.dumps(request),))
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('stopped', ?)", (HOSTILE,))
    return "hostile"


@pytest.mark.parametrize(
    "words",
    [
        "show RUN",
        "show RUN --json",
        "show RUN a",
        "show RUN a --json",
        "runs",
        "runs --json",
        "report RUN --format text",
        "report RUN --format markdown",
        "report other RUN --format markdown",
        "compare other RUN",
        "estimate --from RUN",
        "doctor RUN",
        "doctor RUN --json",
        "score RUN",
        "export RUN --to jsonl",
        "export RUN --to openai",
        "run --resume -o runs/RUN",
        "show RUN NAME",
        "attest RUN -o receipt.json",
        "run NAME -m mock/solver",
        "run arithmetic -m NAME",
        "check NAME",
        "info NAME",
    ],
)
def test_no_face_lets_a_run_drive_the_terminal(hub: Hub, hostile: str, words: str) -> None:
    done = hub(*(HOSTILE if word == "NAME" else word.replace("RUN", hostile) for word in words.split()))
    assert "Traceback" not in done.err
    for said in (done.out, done.err):
        assert DRIVING.findall(said) == []
    if words == "show RUN":
        assert "[link=http://evil][red]x[/red][/link] :skull: forged line" in done.out


def test_no_import_lets_a_folder_drive_the_terminal(hub: Hub, tmp_path: Path) -> None:
    task = tmp_path / "tasks" / HOSTILE.replace("/", "_")
    task.mkdir(parents=True)
    (task / "task.toml").write_text(f"version = {json.dumps(HOSTILE)}\n")
    (task / "instruction.md").write_text(HOSTILE)
    done = hub("import", "harbor", "tasks")
    assert DRIVING.findall(done.out + done.err) == []


def test_no_data_set_lets_its_rows_drive_the_terminal(hub: Hub, tmp_path: Path) -> None:
    rows = [{"id": HOSTILE, "problem": HOSTILE, "answer": HOSTILE}, {"id": HOSTILE, HOSTILE: 1}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for words in (
        "run math --set data=rows.jsonl -m mock/solver --limit 2 -o run",
        "show run",
        "estimate math --set data=rows.jsonl -m mock/solver --limit 2",
        "score math rows.jsonl --set data=rows.jsonl",
    ):
        done = hub(*words.split())
        assert DRIVING.findall(done.out + done.err) == []
