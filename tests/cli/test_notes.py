"""`hub note`, and notes in what `hub show` prints."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Rollout
from rollouthub.store import open_run
from rollouthub.store.notes import RunNotes
from tests.export.kept import group, keep

from .conftest import Hub


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two groups of two; of the first one passes."""
    return keep(tmp_path / "run", *group(1.0, 0.0), *group(1.0, 1.0, name="g2"), repeats=2)


def test_a_note_is_made_shown_and_found(hub: Hub, run: Path) -> None:
    words = ("--tag", "reward hack", "--star", "--comment", "look\x1b[31m [bold]here", "--by", "anna")
    assert "tags: reward hack" in hub("note", "run", "g1-0", *words).out
    assert hub("note", "run", "g1-0", "--turn", "1", "--reviewed", "--json").json["turns"]["1"]["reviews"]
    shown = hub("show", "run", "g1-0").out
    assert "★ starred" in shown
    assert ": look [bold]here" in shown
    assert "turn 1: ✓ reviewed by" in shown
    rows = hub("show", "run", "--where", 'tag ~ "hack" and starred', "--json").json
    assert [(row["rollout_id"], row["notes"]["comments"][0]["by"]) for row in rows] == [("g1-0", "anna")]
    assert "★ reward hack 1 comment" in hub("show", "run").out
    groups = hub("show", "run", "--by", "tag", "--json").json
    assert [(each["tag"], each["rollouts"]) for each in groups] == [("reward hack", 1), (None, 3)]


def test_what_was_reviewed_leaves_the_queue(hub: Hub, run: Path) -> None:
    rows = hub("show", "run", "--needs-review", "--json").json
    assert [(row["rollout_id"], row["needs_review"]) for row in rows] == [
        ("g1-0", ["sometimes solved"]),
        ("g1-1", ["sometimes solved"]),
    ]
    assert hub("note", "run", "--where", 'id == "g1-0"', "--reviewed", "--json").json == {"noted": 1}
    listed = hub("show", "run", "--needs-review").out
    assert "1 rollout to review" in listed
    assert "sometimes solved" in listed
    assert RunNotes.read(run).of("g1-0").is_reviewed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["g1-0", "--tag", "x" * 65], "1 to 64 characters"),
        (["g1-0", "--turn", "99", "--star"], "has no turn 99"),
        (["g9-9", "--star"], "no rollout is named"),
        (["--star"], "name one rollout"),
        (["g1-0", "--where", "passed", "--star"], "name one rollout"),
        (["--where", "passed"], "takes a note to add"),
        (["--where", "tga == 1", "--star"], "did you mean 'tag'"),
    ],
)
def test_a_note_that_cannot_be_made_is_refused(hub: Hub, run: Path, words: list[str], said: str) -> None:
    assert said in hub("note", "run", *words).refused()
    assert not (run / "notes.jsonl").exists()


def test_a_filter_that_nothing_matches_says_so(hub: Hub, run: Path) -> None:
    done = hub("note", "run", "--where", "reward > 7", "--star")
    assert (done.code, "no rollout of run matches 'reward > 7'" in done.err) == (1, True)
    done = hub("note", "run", "--where", "reward > 7", "--star", "--json")
    assert (done.code, done.json) == (1, {"noted": 0})
    assert not (run / "notes.jsonl").exists()


def test_an_export_has_the_notes_and_its_lines_are_records(hub: Hub, run: Path, tmp_path: Path) -> None:
    hub("note", "run", "g1-0", "--tag", "=hack", "--comment", "é\x1b[31m\u202e [b]\n2nd", "--by", "anna")
    hub("note", "run", "g1-0", "--turn", "1", "--tag", "here", "--by", "bert")
    assert hub("export", "run", "-o", "out.jsonl").code == 0
    noted, *others = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert not any("notes" in json.loads(line) for line in others)
    assert json.loads(noted)["notes"]["comments"][0]["text"] == "é [b]\n2nd"
    with open_run(run) as reader:
        kept = list(reader.rollouts())
    read = [Rollout.model_validate_json(line) for line in (noted, *others)]
    assert [each.model_dump_json() for each in read] == [each.model_dump_json() for each in kept]
    assert read[0].notes == json.loads(noted)["notes"]
    assert read[1:] == kept[1:]
    assert hub("show", "run", "g1-0", "--json").json["notes"] == read[0].notes

    assert hub("export", "run", "-o", "out.csv").code == 0
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        cells = [row["notes"] for row in csv.DictReader(file)]
    assert cells[1:] == [""] * 3
    assert json.loads(cells[0])["turns"][0]["tags"] == ["here"]


def test_parquet_has_the_notes_in_typed_columns(hub: Hub, run: Path, tmp_path: Path) -> None:
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    hub("note", "run", "g1-0", "--turn", "1", "--tag", "here", "--comment", "why?", "--by", "anna")
    hub("note", "run", "g2-1", "--star", "--reviewed", "--by", "bert")
    assert hub("export", "run", "-o", "out.parquet").code == 0
    notes = parquet.read_table(tmp_path / "out.parquet").column("notes").to_pylist()
    assert [each is None for each in notes] == [False, True, True, False]
    (turn,) = notes[0]["turns"]
    assert (turn["turn"], turn["tags"], turn["comments"][0]["text"], turn["comments"][0]["by"]) == (
        1, ["here"], "why?", "anna",
    )  # fmt: skip
    assert (notes[3]["starred"], notes[3]["reviews"][0]["by"], notes[3]["turns"]) == (True, "bert", [])


def test_an_export_takes_only_what_matches(hub: Hub, run: Path, tmp_path: Path) -> None:
    hub("note", "run", "g1-0", "--tag", "reward hack")
    hub("note", "run", "g2-1", "--star")
    for words, found in (
        ('tag ~ "hack" or starred', ["g1-0", "g2-1"]),
        ("reward == 0", ["g1-1"]),
    ):
        lines = hub("export", "run", "--where", words).out.splitlines()
        assert [json.loads(line)["rollout_id"] for line in lines] == found
    nothing = hub("export", "run", "--where", "starred and passed == false", "-o", "none.jsonl")
    assert (nothing.code, nothing.out, (tmp_path / "none.jsonl").exists()) == (1, "", False)
    assert "nothing to write: no rollout of run matches 'starred and passed == false'" in nothing.err
    assert hub("export", "run", "--where", "starred", "-o", "out.csv").code == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 2
    made = hub("export", "run", "--to", "sft", "--where", "not starred", "-o", "sft.jsonl", "--json").json
    assert (made["rows"], made["left_out"]) == (3, {"where": 1})
    assert "did you mean 'tag'" in hub("export", "run", "--where", "tga == 1").refused()
    assert "did you mean 'tag'" in hub("export", "run", "--to", "sft", "--where", "tga == 1").refused()


def test_a_filter_leaves_the_advantages_of_a_group_as_they_are(hub: Hub, run: Path) -> None:
    hub("note", "run", "g1-0", "--star")
    everything = [json.loads(line) for line in hub("export", "run", "--to", "groups").out.splitlines()]
    chosen = [
        json.loads(line) for line in hub("export", "run", "--to", "groups", "--where", "starred").out.splitlines()
    ]
    assert chosen == [row for row in everything if row["rollout_id"] == "g1-0"]
    assert chosen


def test_a_report_lists_what_is_noted_and_leads_to_the_transcript(hub: Hub, run: Path, tmp_path: Path) -> None:
    hub(
        "note",
        "run",
        "g1-0",
        "--tag",
        "reward hack",
        "--comment",
        "a<img src=x>|b\n/home/somebody/x.py",
        "--by",
        "anna",
    )
    hub("note", "run", "g2-1", "--turn", "1", "--star", "--reviewed", "--by", "bert")
    (facts,) = hub("report", "run", "--format", "json").json["runs"]
    starred, tagged = facts["noted"]
    assert (starred["rollout_id"], starred["parts"][0]["turn"], tagged["rollout_id"]) == ("g2-1", 1, "g1-0")
    (comment,) = tagged["parts"][0]["notes"]["comments"]
    assert (comment["text"], comment["by"]) == ("a<img src=x>|b\n…/x.py", "anna")
    shown = {each["rollout_id"] for each in facts["transcripts"]}

    assert hub("report", "run", "-o", "out.html").code == 0
    page = (tmp_path / "out.html").read_text()
    section = page[page.index("<h2>Notes</h2>") : page.index("<h2>Transcripts</h2>")]
    assert "tags: reward hack" in section
    assert re.search(r"anna, 20\d\d-\d\d-\d\d \d\d:\d\d UTC: a&lt;img src=x&gt;", section)
    assert re.search(r"turn 1: ✓ reviewed by bert \(20\d\d", section)
    assert "g1-0" in shown
    assert set(re.findall(r'href="#rollout-([^"]*)"', section)) == {"g1-0", "g2-1"} & shown
    assert all(f'id="rollout-{name}"' in page for name in shown)
    bare = hub("report", "run", "--transcripts", "0", "--format", "html").out
    assert "href" not in bare[bare.index("<h2>Notes</h2>") :]
    keep(tmp_path / "other", *group(1.0, 0.0))
    both = hub("report", "other", "run", "--format", "html").out
    assert 'href="#run1-rollout-g1-0"' in both
    assert 'id="run1-rollout-g1-0"' in both

    text = hub("report", "run").out
    assert "### Notes" in text
    assert "a<img src=x>¦b" in text


def test_what_is_no_note_is_told_and_stops_nothing(hub: Hub, run: Path) -> None:
    hub("note", "run", "g1-0", "--star")
    with (run / "notes.jsonl").open("a") as file:
        file.write("[1, 2]\n")
    done = hub("export", "run")
    assert (done.code, json.loads(done.out.splitlines()[0])["notes"]["starred"]) == (0, True)
    assert "1 line of notes.jsonl is no note" in done.err
    (facts,) = hub("report", "run", "--format", "json").json["runs"]
    assert any("1 line of notes.jsonl is no note" in notice for notice in facts["notices"])
    assert len(facts["noted"]) == 1


def test_a_report_without_notes_has_no_section_of_them(hub: Hub, run: Path) -> None:
    assert "Notes</h2>" not in hub("report", "run", "--format", "html").out
    assert "### Notes" not in hub("report", "run").out


def test_the_queue_on_screens_needs_a_run(hub: Hub, run: Path) -> None:
    assert "--needs-review goes with a RUN" in hub("watch", "--needs-review").refused()
