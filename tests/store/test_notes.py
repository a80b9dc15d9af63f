"""Notes beside a run: several people write at once, a killed writer loses nothing, a stranger's file harms nobody."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rollouthub.errors import RunDirectoryError, StoreError, UsageError
from rollouthub.store import note_file
from rollouthub.store.notes import (
    COMMENT_CHARACTERS,
    MOST_COMMENTS,
    MOST_TAGS,
    MOST_TURNS,
    NoteChange,
    RunNotes,
    add,
    user_name,
)
from tests.store.processes import REPOSITORY, make_read_only, read_as_another
from tests.store.records import record, write

WRITER = """
import sys
from pathlib import Path
from rollouthub.store.notes import NoteChange, add

directory, name = Path(sys.argv[1]), sys.argv[2]
for number in range(int(sys.argv[3])):
    add(directory, NoteChange(f"{name}-{number}", comment="why " * 500), by=name)
    print(number, flush=True)
"""


def start(directory: Path, name: str, count: int) -> "subprocess.Popen[str]":
    """A process that adds so many comments and says of each that it was added."""
    command = [sys.executable, "-c", WRITER, str(directory), name, str(count)]
    return subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)


def test_what_is_noted_is_read_by_whom_and_when(tmp_path: Path) -> None:
    add(tmp_path, NoteChange("g-0", tags=("reward hack", "odd"), star=True, comment="look\nhere"), by="anna")
    add(tmp_path, NoteChange("g-0", turn=2, comment="this one"), by="ben")
    add(tmp_path, NoteChange("g-0", reviewed=True, untags=("odd", "never there")))
    notes = RunNotes.read(tmp_path).of("g-0")
    assert (notes.tags, notes.is_starred, notes.is_reviewed) == (("reward hack",), True, True)
    assert [(comment.text, comment.by) for comment in notes.all_comments] == [
        ("look\nhere", "anna"),
        ("this one", "ben"),
    ]
    assert notes.of_turn(2).comments[0].at > 1.7e9
    assert [review.by for review in notes.reviews] == [user_name()]
    assert not RunNotes.read(tmp_path).of("g-0", attempt=1), "another attempt begins without notes"


def test_stars_reviews_and_tags_are_taken_back(tmp_path: Path) -> None:
    add(tmp_path, NoteChange("g-0", tags=("odd",), star=True, reviewed=True))
    notes = RunNotes.read(tmp_path)
    add(tmp_path, NoteChange("g-0", untags=("odd",), star=False, reviewed=False))
    assert notes.refresh()
    assert notes.changed == {("g-0", 0)}
    assert not notes.of("g-0")
    assert list(notes) == []


def test_a_refresh_finds_what_was_added_and_nothing_else(tmp_path: Path) -> None:
    notes = RunNotes.read(tmp_path)
    assert not notes.refresh()
    add(tmp_path, NoteChange("g-0", star=True), NoteChange("g-1", tags=("odd",)))
    assert notes.refresh()
    version = notes.version
    assert notes.changed == {("g-0", 0), ("g-1", 0)}
    assert not notes.refresh()
    assert notes.version == version
    assert notes.tags() == {"odd": 1}


def test_a_file_that_is_put_in_its_place_is_read_from_its_beginning(tmp_path: Path) -> None:
    add(tmp_path, NoteChange("g-0", star=True), NoteChange("g-1", star=True))
    notes = RunNotes.read(tmp_path)
    (tmp_path / note_file.NOTES).unlink()
    assert notes.refresh()
    assert not notes.of("g-1")
    add(tmp_path, NoteChange("g-2", star=True))
    assert notes.refresh()
    assert [name for name, _, _ in notes] == ["g-2"]


def test_processes_that_write_at_once_lose_and_mix_nothing(tmp_path: Path) -> None:
    writers = [start(tmp_path, name, 40) for name in ("anna", "ben")]
    for writer in writers:
        writer.communicate(timeout=60)
    notes = RunNotes.read(tmp_path)
    assert notes.problem is None
    assert {name for name, _, _ in notes} == {f"{name}-{number}" for name in ("anna", "ben") for number in range(40)}
    assert all(len(each.comments[0].text) == len(("why " * 500).strip()) for _, _, each in notes)


def test_a_killed_writer_loses_nothing_that_was_said_to_be_written(tmp_path: Path) -> None:
    said = 0
    for kill in range(3):
        writer = start(tmp_path, f"killed{kill}", 1_000_000)
        assert writer.stdout is not None
        for _ in range(5 + kill):
            writer.stdout.readline()
        writer.kill()
        rest, _ = writer.communicate()
        said += 5 + kill + rest.count("\n")
    add(tmp_path, NoteChange("last", star=True))
    notes = RunNotes.read(tmp_path)
    assert said <= len(list(notes)) - 1 <= said + 3
    assert notes.of("last").is_starred


def test_a_torn_line_is_ended_by_the_next_writer_and_said(tmp_path: Path) -> None:
    add(tmp_path, NoteChange("g-0", star=True))
    path = tmp_path / note_file.NOTES
    path.write_bytes(path.read_bytes() + b'{"at":1,"by":"anna","rollout":"g-1","comm')
    notes = RunNotes.read(tmp_path)
    assert notes.problem is None, "it may still be being written"
    add(tmp_path, NoteChange("g-2", star=True))
    assert notes.refresh()
    assert [name for name, _, _ in notes] == ["g-0", "g-2"]
    assert notes.problem == "1 line of notes.jsonl is no note, and left out"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (NoteChange("g-0"), "nothing to note"),
        (NoteChange("g-0", tags=("",)), "1 to 64 characters"),
        (NoteChange("g-0", tags=("\x1b[2J",)), "1 to 64 characters"),
        (NoteChange("g-0", tags=("x" * 65,)), "not 65"),
        (NoteChange("g-0", tags=tuple(map(str, range(MOST_TAGS + 1)))), "32 tags at most"),
        (NoteChange("g-0", comment=" \n"), "needs some text"),
        (NoteChange("g-0", comment="x" * (COMMENT_CHARACTERS + 1)), "10,000 characters at most, not 10,001"),
        (NoteChange("g-0", turn=0, star=True), "counted from 1"),
    ],
)
def test_what_cannot_be_noted_is_refused_and_nothing_written(tmp_path: Path, change: NoteChange, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        add(tmp_path, NoteChange("g-1", star=True), change)
    with pytest.raises(UsageError, match="has a name"):
        add(tmp_path, NoteChange("g-1", star=True), by="\x1b")
    assert list(tmp_path.iterdir()) == []


def test_text_is_kept_without_what_would_drive_a_terminal(tmp_path: Path) -> None:
    add(tmp_path, NoteChange("g-0", tags=("a\x1b[31m \nb",), comment="x\x1b]0;title\x07y\u202ez"), by="an\x9bJna")
    path = tmp_path / note_file.NOTES
    path.write_bytes(path.read_bytes() + b'{"at":1,"by":"\\u001b[2J","rollout":"g-1","comment":"\\u001b[2Jhi"}\n')
    notes = RunNotes.read(tmp_path)
    assert (notes.of("g-0").tags, notes.of("g-0").comments[0].text) == (("a b",), "xyz")
    assert (notes.of("g-1").comments[0].text, notes.of("g-1").comments[0].by) == ("hi", "")


def test_bounds_hold_for_a_strangers_file_too(tmp_path: Path) -> None:
    path = tmp_path / note_file.NOTES
    tags = ",".join(f'"{number:_>200}"' for number in range(300))
    lines = [f'{{"at":1e300,"by":"{"b" * 500}","rollout":"g-0","reviewed":true,"tags":[{tags}],"untags":[{tags}]}}']
    lines += ['{"at":1,"by":"b","rollout":"g-0","comment":"%s"}' % ("c" * 20_000)] * (MOST_COMMENTS + 9)
    lines += [f'{{"at":1,"by":"b","rollout":"g-0","turn":{turn},"star":true}}' for turn in range(-1, MOST_TURNS + 9)]
    path.write_text("\n".join(lines) + "\n")
    notes = RunNotes.read(tmp_path).of("g-0")
    assert len(notes.tags) <= MOST_TAGS
    assert max(map(len, notes.tags)) <= 64
    assert [(review.at, len(review.by)) for review in notes.reviews] == [(0.0, 64)]
    assert len(notes.comments) == MOST_COMMENTS
    assert len(notes.comments[0].text) == COMMENT_CHARACTERS
    assert len(notes.turns) <= MOST_TURNS
    assert min(turn for turn, _ in notes.turns) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"\x00\xff\xfe" * 100_000 + b"\n",
        b'{"at":' + b"[" * 100_000 + b"\n",
        b'{"at":1,"by":"x","rollout":"g-9","other":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}\n",
        b'{"at":1,"by":"x","rollout":"\\ud800"}\n',
        b'{"at":1,"by":"x","rollout":"g-9","attempt":1e400}\n',
        b'{"at":1,"by":"x","rollout":"g-9","comment":"' + b"x" * 200_000 + b'"}\n',
        b"null\n[]\n7\n",
    ],
    ids=["binary", "deep", "deep beside", "surrogate", "huge number", "long line", "no objects"],
)
def test_a_strangers_lines_are_left_out_and_the_others_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / note_file.NOTES).write_bytes(content)
    add(tmp_path, NoteChange("g-0", star=True))
    notes = RunNotes.read(tmp_path)
    assert notes.of("g-0").is_starred
    assert len(list(notes)) == 1
    assert notes.problem is not None
    assert "left out" in notes.problem


def test_a_huge_file_is_read_up_to_a_bound_and_not_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(note_file, "MOST_BYTES", 10_000)
    line = b'{"at":1,"by":"x","rollout":"g-0","star":true}\n'
    path = tmp_path / note_file.NOTES
    path.write_bytes(line * 1000)
    notes = RunNotes.read(tmp_path)
    assert notes.of("g-0").is_starred
    assert "the rest is not read" in str(notes.problem)
    with pytest.raises(StoreError, match="is full"):
        add(tmp_path, NoteChange("g-1", star=True))
    assert path.stat().st_size == len(line) * 1000


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_is_no_file_is_neither_read_nor_written(tmp_path: Path, kind: str) -> None:
    path, mine = tmp_path / note_file.NOTES, tmp_path / "mine"
    mine.write_text("mine")
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(mine)
        case _:
            path.mkdir()
    notes = RunNotes.read(tmp_path)
    assert "cannot be read" in str(notes.problem)
    with pytest.raises(RunDirectoryError, match="cannot be written"):
        add(tmp_path, NoteChange("g-0", star=True))
    assert mine.read_text() == "mine"


def test_a_read_only_directory_is_read_and_refused_in_a_sentence(small_disk: Path) -> None:
    add(small_disk, NoteChange("g-0", star=True))
    make_read_only(small_disk)
    assert RunNotes.read(small_disk).of("g-0").is_starred
    with pytest.raises(RunDirectoryError, match="kept beside the run; make its directory writable, or copy"):
        add(small_disk, NoteChange("g-1", star=True))


def test_a_full_disk_loses_no_earlier_note_and_leaves_no_half(small_disk: Path) -> None:
    add(small_disk, NoteChange("g-0", star=True))
    with (small_disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(bytes(4096))
    size = (small_disk / note_file.NOTES).stat().st_size
    with pytest.raises(StoreError, match="the disk is full"):
        add(small_disk, *(NoteChange(f"g-{number}", comment="x" * 9000) for number in range(9)))
    assert (small_disk / note_file.NOTES).stat().st_size == size
    assert RunNotes.read(small_disk).problem is None


async def test_notes_leave_the_runs_database_as_it_was(shared_path: Path) -> None:
    await write(shared_path / "run", [record("g-0")])
    before = (shared_path / "run" / "run.db").read_bytes()
    add(shared_path / "run", NoteChange("g-0", star=True))
    assert (shared_path / "run" / "run.db").read_bytes() == before
    assert read_as_another(shared_path / "run") == "finished 1"


async def test_tags_are_counted_again_only_after_a_change(tmp_path: Path) -> None:
    add(tmp_path, NoteChange("a", tags=("odd",)), by="anna")
    notes = RunNotes.read(tmp_path)
    counted = notes.tags()
    assert counted == {"odd": 1}
    notes.refresh()
    assert notes.tags() is counted
    add(tmp_path, NoteChange("b", tags=("odd",)), by="anna")
    notes.refresh()
    assert notes.tags() == {"odd": 2}
