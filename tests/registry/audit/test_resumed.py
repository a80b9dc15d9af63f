"""An audit that was killed or interrupted goes on: nothing is audited twice, and nothing is lost."""

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .sets import hub_audit, seeded, started_audit

COUNT = 12


def _arguments(folder: Path, number: int, *more: str) -> list[str]:
    settings = {"count": COUNT, "signal_once": str(folder / "signalled"), "signal": number}
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return ["sums.py", "-o", "a", "-c", "2", *words, *more]


def _audited(journal: Path) -> Counter[str]:
    lines: list[dict[str, Any]] = [json.loads(line) for line in journal.read_text().splitlines()]
    return Counter(str(line["task"]) for line in lines if "task" in line)


@pytest.mark.parametrize("torn", [b"", b'{"environment":"sums","spl'], ids=["between lines", "within a line"])
def test_an_audit_that_was_killed_goes_on_with_what_is_left(tmp_path: Path, torn: bytes) -> None:
    seeded(tmp_path)
    journal = tmp_path / "a" / "audit.jsonl"
    killed = started_audit(tmp_path, *_arguments(tmp_path, signal.SIGKILL))
    assert killed.code == -signal.SIGKILL
    before = _audited(journal)
    assert 0 < len(before) < COUNT
    with journal.open("ab") as opened:
        opened.write(torn)
    done = started_audit(tmp_path, *_arguments(tmp_path, signal.SIGKILL, "--json"))
    assert done.code == 1, done.err
    assert [task["task"] for task in done.json["tasks"]] != []
    assert Counter(task["task"] for task in done.json["tasks"]) == {f"sum-{number}": 1 for number in range(COUNT)}
    lines = [line for line in journal.read_text().splitlines() if line.encode() != torn]
    assert Counter(task["task"] for task in map(json.loads, lines) if "task" in task) == {
        f"sum-{number}": 1 for number in range(COUNT)
    }


def test_an_audit_that_was_killed_in_its_first_line_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "audit.jsonl").write_text('{"version":1,"hub_ver')
    said = hub_audit("arithmetic", "--limit", "1", "-o", tmp_path / "a")
    assert said.code == 0
    assert hub_audit(tmp_path / "a").code == 0


def test_ctrl_c_ends_with_130_and_keeps_what_was_audited(tmp_path: Path) -> None:
    seeded(tmp_path)
    stopped = started_audit(tmp_path, *_arguments(tmp_path, signal.SIGINT))
    assert stopped.code == 130, (stopped.out, stopped.err)
    assert "Traceback" not in stopped.err
    assert "the same command with -o a" in " ".join(stopped.out.split())
    kept = _audited(tmp_path / "a" / "audit.jsonl")
    assert 0 < len(kept) < COUNT
    done = started_audit(tmp_path, *_arguments(tmp_path, signal.SIGINT))
    assert done.code == 1, done.err
    assert _audited(tmp_path / "a" / "audit.jsonl") == {f"sum-{number}": 1 for number in range(COUNT)}


def test_a_task_that_was_changed_since_is_audited_again(tmp_path: Path) -> None:
    file = seeded(tmp_path)
    hub_audit(file, "-o", tmp_path / "a", "--task", "sum-0", "--task", "sum-3")
    journal = tmp_path / "a" / "audit.jsonl"
    first = json.loads(journal.read_text().splitlines()[2])
    journal.write_text(journal.read_text().replace(first["digest"], "sha256:" + "0" * 32))
    hub_audit(file, "-o", tmp_path / "a", "--task", "sum-0", "--task", "sum-3")
    assert _audited(journal) == {first["task"]: 2, ({"sum-0", "sum-3"} - {first["task"]}).pop(): 1}


def test_a_cheat_that_was_changed_is_not_taken_for_the_one_that_was_tried(tmp_path: Path) -> None:
    cheat = tmp_path / "cheat.py"
    text = (
        "from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater\n"
        "async def act(cheater: Cheater) -> None:\n"
        "    cheater.answer('please')\n"
        "CHEAT = Cheat('ask', 'wrong-accepted', 'asking is not paid', 'here', act)\n"
    )
    cheat.write_text(text)
    order = ("arithmetic", "--limit", "1", "--only", "ask", "--add-cheat", cheat, "-o", tmp_path / "a")
    assert hub_audit(*order).code == 0
    assert hub_audit(*order).code == 0
    cheat.write_text(text.replace("please", "now"))
    assert "holds an audit of something else (settings: cheats)" in hub_audit(*order).refused()
