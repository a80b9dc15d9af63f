"""`hub audit` as people and programs call it: what it prints, how it ends, and what it refuses."""

from pathlib import Path

import pytest

from rollouthub_registry.audit.audit_command import audit_request
from rollouthub_registry.audit.audit_run import AuditRequest, chosen_probes
from rollouthub_registry.check.defect_class import DEFECTS

from .sets import DEFECTIVE, SOUND, hub_audit, seeded

FIELDS = {
    "format", "directory", "hub_version", "at", "environments", "settings", "complete", "sound_set", "planned",
    "audited", "bad_rows", "sound", "defective", "undecided", "classes", "probes", "tasks",
}  # fmt: skip


def test_the_json_names_every_task_with_its_verdict_and_class(tmp_path: Path) -> None:
    said = hub_audit(seeded(tmp_path), "-o", tmp_path / "a", "--json")
    found = said.json
    assert said.code == 1
    assert set(found) == FIELDS
    assert found["format"] == 1
    assert (found["planned"], found["audited"], found["sound"], found["defective"]) == (8, 8, 4, 4)
    verdicts = {task["task"]: task["verdict"] for task in found["tasks"]}
    assert verdicts == dict.fromkeys(SOUND, "sound") | dict.fromkeys(DEFECTIVE, "defective")
    assert found["classes"]["floor"]["defects"] == 2
    assert found["classes"]["oracle"]["defects"] == 2
    assert set(found["classes"]) <= set(DEFECTS)


def test_a_sound_set_ends_with_0(tmp_path: Path) -> None:
    said = hub_audit("arithmetic", "--limit", "2", "-o", tmp_path / "a")
    assert said.code == 0, said.out
    assert "2 of 2 tasks: 2 sound" in said.out


def test_a_kept_audit_is_shown_again_without_playing(tmp_path: Path) -> None:
    file, folder = seeded(tmp_path), tmp_path / "a"
    made = hub_audit(file, "-o", folder, "--json")
    file.unlink()
    shown = hub_audit(folder, "--json")
    assert shown.code == 1
    for found in (made.json, shown.json):
        found.pop("at")
    assert sorted(shown.json["tasks"], key=str) == sorted(made.json["tasks"], key=str)
    assert {key: shown.json[key] for key in ("planned", "complete", "classes", "environments")} == {
        key: made.json[key] for key in ("planned", "complete", "classes", "environments")
    }


def test_a_tasks_page_tells_every_probe_and_the_evidence(tmp_path: Path) -> None:
    request_probes = [probe.name for probe in chosen_probes(_request())]
    hub_audit(seeded(tmp_path), "-o", tmp_path / "a")
    said = hub_audit(tmp_path / "a", "--task", "sum-1")
    assert said.code == 1
    for name in request_probes:
        assert f" {name} " in said.out
    assert "doing nothing is paid 1" in said.out
    assert "not tried: the reference solution calls no tool" in said.out
    assert "sum-5" not in said.out.splitlines()[0]
    sound = hub_audit(tmp_path / "a", "--task", "sum-0")
    assert sound.code == 0
    assert sound.out.startswith("sum-0  sound")


def test_a_set_that_was_not_audited_to_its_end_is_not_sound(tmp_path: Path) -> None:
    hub_audit("arithmetic", "--limit", "3", "-o", tmp_path / "a")
    journal = tmp_path / "a" / "audit.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-1]))
    said = hub_audit(tmp_path / "a", "--json")
    assert said.code == 1
    assert not said.json["complete"]
    assert said.json["planned"] == 3


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--only", "nonsense"), "'nonsense'"),
        (("--task", "sum-99"), "sum-99"),
        (("--split", "other"), "other"),
        (("--set", "cuont=3"), "cuont"),
        (("--report", "missing/page.html"), "--report"),
        (("--accept", "missing/set"), "--accept"),
        (("--add-cheat", "missing.py"), "there is no such Python file"),
        (("--json", "--github"), "not both"),
        (("--limit", "0"), "--limit"),
    ],
    ids=str,
)
def test_bad_options_are_refused_before_anything_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in hub_audit(seeded(tmp_path), "-o", tmp_path / "a", *more).refused()
    assert not (tmp_path / "a").exists()


def test_an_unknown_environment_is_refused(tmp_path: Path) -> None:
    assert "'arithmetc'" in hub_audit("arithmetc", "-o", tmp_path / "a").refused()


def test_another_audits_folder_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    hub_audit(seeded(tmp_path), "-o", tmp_path / "a", "--limit", "1")
    before = (tmp_path / "a" / "audit.jsonl").read_bytes()
    assert "holds an audit of something else" in hub_audit("arithmetic", "-o", tmp_path / "a").refused()
    assert (tmp_path / "a" / "audit.jsonl").read_bytes() == before


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    assert "nothing can be written" in hub_audit(seeded(tmp_path), "-o", tmp_path / "a").refused()


def test_a_damaged_audit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").write_text("no json\n")
    assert "is no audit" in hub_audit(tmp_path).refused()
    (tmp_path / "audit.jsonl").write_bytes(b"\xff\x00\n" * 3)
    assert "is no audit" in hub_audit(tmp_path).refused()


def test_an_audit_is_only_shown_with_options_that_show_it(tmp_path: Path) -> None:
    hub_audit("arithmetic", "--limit", "1", "-o", tmp_path / "a")
    assert "is an audit, which is only shown" in hub_audit(tmp_path / "a", "--split", "test").refused()
    assert "no task in the audit" in hub_audit(tmp_path / "a", "--task", "nobody").refused()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def broken(:\n", "cannot be run"),
        ("raise SystemExit(3)\n", "cannot be run"),
        ("x = 1\n", "has no CHEAT"),
        ("CHEAT = 'me'\n", "has no CHEAT"),
    ],
)
def test_a_file_that_is_no_cheat_is_refused(tmp_path: Path, text: str, words: str) -> None:
    cheat = tmp_path / "cheat.py"
    cheat.write_text(text)
    assert words in hub_audit("arithmetic", "--limit", "1", "-o", tmp_path / "a", "--add-cheat", cheat).refused()


def test_a_cheat_of_ones_own_is_tried_on_every_task(tmp_path: Path) -> None:
    cheat = tmp_path / "cheat.py"
    cheat.write_text(
        "from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater\n"
        "async def act(cheater: Cheater) -> None:\n"
        "    cheater.answer('please')\n"
        "CHEAT = Cheat('ask-nicely', 'wrong-accepted', 'asking is not paid', 'https://example.org/ask', act)\n"
    )
    only = ("--only", "ask-nicely", "--add-cheat", cheat)
    said = hub_audit("arithmetic", "--limit", "2", "-o", tmp_path / "a", "--json", *only)
    assert said.code == 0
    assert said.json["probes"] == {"ask-nicely": {"held": 2, "broke": 0, "not_tried": 0}}


def _request() -> AuditRequest:
    return audit_request(
        ["arithmetic"], split=None, settings=[], roles=[], tasks=[], limit=None, sample=None, seed=0, servers=1,
        only=[], cheats=[], repeats=3, concurrency=1,
    )  # fmt: skip
