"""`hub note`, and notes in what `hub show` prints."""

from pathlib import Path

import pytest

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
    assert "1 rollouts to review" in listed
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


def test_the_queue_on_screens_needs_a_run(hub: Hub, run: Path) -> None:
    assert "--needs-review goes with a RUN" in hub("watch", "--needs-review").refused()
