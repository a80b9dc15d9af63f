"""Notes and reviews on the screens of `hub watch`, by their keys."""

from pathlib import Path
from typing import Any

import pytest

from rollouthub import Score
from rollouthub.store.notes import NoteChange, RunNotes, add
from rollouthub_tui.screens.rollout import RolloutScreen
from tests.store.conftest import small_disk
from tests.store.processes import make_read_only
from tests.store.records import record, write
from tests.tui.walking import Walker, go, lines, settled, shows, until, walking

__all__ = ["small_disk"]


@pytest.fixture
async def run(tmp_path: Path) -> Path:
    """Three samples of a task of which one passes, a suspect one, and one that nobody need look at."""
    scores = {"g1-0": True, "g1-1": False, "g1-2": False, "g3-0": True}
    made = [record(name, score=Score(reward=float(passed), passed=passed)) for name, passed in scores.items()]
    suspect = Score(reward=1.0, passed=True, suspect="it replaced the tool")
    await write(tmp_path / "run", [*made, record("g2-0", score=suspect)])
    return tmp_path / "run"


def told(pilot: Walker) -> str:
    """What notifications say."""
    notifications: Any = getattr(pilot.app, "_notifications")  # noqa: B009  # Textual gives them no public name
    return "\n".join(each.message for each in notifications)


async def test_a_rollout_of_the_list_is_starred_tagged_and_commented(run: Path, tmp_path: Path) -> None:
    add(run, NoteChange("g3-0", tags=("odd",)))
    async with walking(tmp_path, run=run, size=(200, 40)) as pilot:
        await go(pilot, "2", to="1 of 5")
        await go(pilot, "asterisk", to="★")
        await go(pilot, "number_sign", to="In use: odd")
        await go(pilot, *"reward hack, b", "enter", to="★ reward hack, b")
        await go(pilot, "number_sign", to="with commas between them")
        await go(pilot, "end", "backspace", "backspace", "backspace", "enter")
        await go(pilot, "c", to="Comment on")
        assert shows(pilot, "Comment on test/g2, sample 0") and shows(pilot, "enter: keep it")
        await go(pilot, *"why", "enter", to="★ reward hack 1 comment")
        await go(pilot, "c", to=": why")  # what was said before
        await go(pilot, "escape")
        await go(pilot, "asterisk")
        await until(pilot, lambda: not shows(pilot, "★"))
    notes = RunNotes.read(run).of("g2-0")
    assert (notes.tags, notes.is_starred, notes.comments[0].text) == (("reward hack",), False, "why")


async def test_a_dialog_that_is_left_or_gets_too_long_a_tag_writes_nothing(run: Path, tmp_path: Path) -> None:
    async with walking(tmp_path, run=run) as pilot:
        await go(pilot, "2", to="1 of 5")
        await go(pilot, "number_sign", to="with commas between them")
        await go(pilot, *("x" * 65), "enter", to="1 to 64 characters")
        await go(pilot, "escape")
        await until(pilot, lambda: not shows(pilot, "with commas between them"))
    assert RunNotes.read(run).version == 0


async def test_notes_stand_above_a_rollout_and_follow_what_others_write(run: Path, tmp_path: Path) -> None:
    add(run, NoteChange("g2-0", comment="\x1b[31m[red]look", tags=("odd",)), by="an[b]na")
    async with walking(tmp_path, run=run) as pilot:
        await go(pilot, "2", "enter", to="tags: odd")
        assert shows(pilot, "an[b]na, ")
        assert shows(pilot, ": [red]look")
        add(run, NoteChange("g2-0", turn=2, star=True))
        await until(pilot, lambda: shows(pilot, "turn 2: ★ starred"))
        await go(pilot, "t", to="with commas between them")
        await go(pilot, "end", *", two", "enter", to="tags: odd, two")


async def test_notes_of_turns_stand_at_the_turns_and_what_has_no_room_is_counted(run: Path, tmp_path: Path) -> None:
    add(run, *(NoteChange("g2-0", comment=f"remark {number}") for number in range(6)))
    add(run, NoteChange("g2-0", turn=2, tags=("wrong tool",)))
    async with walking(tmp_path, run=run) as pilot:
        await go(pilot, "2", "enter", to="turn 2 · noted")
        assert [line for line in lines(pilot) if "4 more lines: c shows earlier comments" in line]
        assert sum("tags: wrong tool" in line for line in lines(pilot)) == 2  # above the tabs, and at the turn


async def test_the_list_beside_a_preview_shows_its_notes(run: Path, tmp_path: Path) -> None:
    add(run, NoteChange("g1-1", tags=("wrong sign",), star=True))
    async with walking(tmp_path, run=run, size=(140, 40)) as pilot:
        await go(pilot, "2", to="★ wrong sign")
        await go(pilot, "j", "j", "j", to="tags: wrong sign")
        assert not any("★ wrong s…" in line for line in lines(pilot))


async def test_a_filter_by_notes_follows_them_while_it_is_shown(run: Path, tmp_path: Path) -> None:
    async with walking(tmp_path, run=run, size=(140, 40)) as pilot:
        await go(pilot, "2", to="1 of 5")
        await go(pilot, "f", *'tag ~ "hack"', "enter", to="no rollout is like that")
        add(run, NoteChange("g1-1", tags=("reward hack",)))
        await until(pilot, lambda: shows(pilot, "1 of 1, filtered from 5"))
        add(run, NoteChange("g1-1", untags=("reward hack",)))
        await until(pilot, lambda: shows(pilot, "no rollout is like that"))


async def test_the_queue_is_worked_through_in_the_list(run: Path, tmp_path: Path) -> None:
    async with walking(tmp_path, run=run, size=(140, 40)) as pilot:
        await go(pilot, "2", to="1 of 5")
        await go(pilot, "V", to="2 of 2 left to review")
        assert shows(pilot, "suspect score")
        assert shows(pilot, "sometimes solved")
        await go(pilot, "v", to="1 of 2 left to review")
        await go(pilot, "v", to="nothing is left to review")
        await go(pilot, "V", to="1 of 5")
    notes = RunNotes.read(run)
    assert {name for name, _, each in notes if each.is_reviewed} == {"g2-0", "g1-0"}


async def test_a_review_goes_on_to_the_next_rollout_nobody_reviewed(run: Path, tmp_path: Path) -> None:
    async with walking(tmp_path, run=run, size=(140, 40), reviews=True) as pilot:
        await until(pilot, lambda: shows(pilot, "2 of 2 left to review"))
        await go(pilot, "enter", to="sample 0 › turn 1  1 of 2 · g2-0")
        await go(pilot, "v", to="· g1-0")
        await settled(pilot)
        assert isinstance(pilot.app.screen, RolloutScreen)
        await pilot.press("v")
        await until(pilot, lambda: "all rollouts of the list are reviewed" in told(pilot))
        await go(pilot, "q", to="nothing is left to review")
        assert RunNotes.read(run).of("g1-0").is_reviewed


async def test_a_run_that_cannot_be_written_says_so(small_disk: Path, tmp_path: Path) -> None:
    await write(small_disk / "run", [record("g1-0")])
    make_read_only(small_disk)
    async with walking(tmp_path, run=small_disk / "run", size=(200, 40)) as pilot:
        await go(pilot, "2", to="1 of 1")
        await pilot.press("asterisk")
        await until(pilot, lambda: "cannot be written" in told(pilot))
        assert "★" not in "\n".join(lines(pilot))
    assert RunNotes.read(small_disk / "run").version == 0


async def test_marked_rollouts_are_tagged_starred_and_reviewed_together(run: Path, tmp_path: Path) -> None:
    add(run, NoteChange("g3-0", tags=("odd", "old")), NoteChange("g3-0", star=True))
    async with walking(tmp_path, run=run, size=(130, 30)) as pilot:
        await go(pilot, "2", to="1 of 5")
        await go(pilot, "space", "space", to="2 marked")
        await go(pilot, "number_sign", to="Tags to add to 2 rollouts")
        await go(pilot, *"odd, -old, new", "enter", to="odd, new")
        await go(pilot, "asterisk", to="Star 2 rollouts?")
        await go(pilot, "n")
        await go(pilot, "asterisk", to="1 of them are so already")
        await go(pilot, "y")
        await until(pilot, lambda: "starred g2-0" in told(pilot))  # the other was
        await go(pilot, "U")
        await until(pilot, lambda: not shows(pilot, "2 marked"))
        await go(pilot, "A", to="5 marked")
        await go(pilot, "v", to="Mark as reviewed: 5 rollouts?")
        await go(pilot, "y")
        await until(pilot, lambda: "5 rollouts are reviewed" in told(pilot))
        await go(pilot, "A")
        await until(pilot, lambda: not shows(pilot, "marked (U"))
    notes = RunNotes.read(run)
    assert notes.of("g3-0").tags == ("odd", "new") and notes.of("g2-0").tags == ("odd", "new")
    assert sum(held.is_reviewed for _, _, held in notes) == 5
    assert notes.of("g2-0").is_starred and notes.of("g3-0").is_starred and not notes.of("g1-0").is_starred
