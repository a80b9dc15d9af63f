"""What actions do beyond the hub: scoring anew, opening files."""

import sys
from pathlib import Path

import pytest
from textual.widgets import Label, Log, OptionList

from rollouthub import Message
from rollouthub.errors import UsageError
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.messages import Media
from rollouthub.rollout import Turn
from rollouthub.score import Artifact
from rollouthub.store import open_writer
from rollouthub_tui.actions.kept_files import Kept, kept_files
from rollouthub_tui.dialogs.questions import AskScreen, ChooseScreen
from rollouthub_tui.dialogs.rescoring import RescoreScreen, free_directory
from rollouthub_tui.suspension import away
from tests.store.records import RESOLVED, record, write
from tests.tui.episodes import PICTURE, digest_of
from tests.tui.stage import Stage, standing
from tests.tui.walking import settled

from .conftest import Plain, told

RUDE = b"\x1b]0;owned\x07 plain words"
FAKE_HUB = """
import pathlib, sys
print("scoring \x1b[31m[bold]rudely[/bold]\\r1 of 2\\r2 of 2")
directory = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
directory.mkdir()
(directory / "run.db").write_text("")
sys.exit(1)
"""


def stage(watched: WatchedRun, target: Target | None, home: Path) -> Stage:
    environ = {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "PAGER": "cat"}
    return Stage(lambda: Plain(watched, target), environ=environ)


async def test_scoring_anew_shows_what_is_said_and_opens_the_new_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    await write(run, [record("g1-0")])
    (tmp_path / "run-rescored").mkdir()
    assert free_directory(run) == tmp_path / "run-rescored-2"
    watched = WatchedRun(run, {}, standing)
    await watched.open()
    app = stage(watched, None, tmp_path)
    async with app.run_test() as pilot:
        await pilot.press("R")
        assert isinstance(app.screen, AskScreen)
        await pilot.press("n")
        screen = RescoreScreen(run, hub=(sys.executable, "-c", FAKE_HUB))
        await app.push_screen(screen)
        await settled(pilot)
        assert list(screen.query_one(Log).lines)[1:] == ["scoring [bold]rudely[/bold]", "1 of 2", "2 of 2"]
        await pilot.press("enter")
        assert app.opened == [("run", tmp_path / "run-rescored-2")]
    watched.close()


async def test_scoring_anew_says_a_rude_name_plainly(tmp_path: Path) -> None:
    run = tmp_path / "ru\x1b]0;owned\x07n"
    await write(run, [record("g1-0")])
    watched = WatchedRun(run, {}, standing)
    await watched.open()
    app = stage(watched, None, tmp_path)
    async with app.run_test(size=(150, 40)) as pilot:
        screen = RescoreScreen(run, hub=(sys.executable, "-c", FAKE_HUB))
        await app.push_screen(screen)
        await settled(pilot)
        shown = [*screen.query_one(Log).lines, str(screen.query_one("#keys", Label).content)]
        assert not any("\x1b" in line for line in shown)
        assert any("run-rescored" in line for line in shown)
    watched.close()


async def test_what_is_kept_is_listed_and_a_program_needs_a_terminal(tmp_path: Path) -> None:
    run = tmp_path / "run"
    notes, picture = digest_of(RUDE), digest_of(PICTURE)
    seen = Message(role="user", content=(Media(digest=picture, mime_type="image/png"),))
    one = record(
        "g1-0",
        artifacts=(Artifact(name="no\x1b[1mtes.txt", digest=notes, bytes=len(RUDE)),),
        turns=(Turn(index=0, messages=(seen,), response=Message(role="assistant", content="so")),),
    )
    async with open_writer(run, resolved=RESOLVED, given="", resume=False) as writer:
        await writer.add(one, {notes: RUDE, picture: PICTURE})
    (run / "logs").mkdir(exist_ok=True)
    (run / "logs" / "run.log").write_text("a line\n")
    watched = WatchedRun(run, {}, standing)
    await watched.open()
    target = Target("g1-0", 0, 0)
    kept = list(kept_files(watched, target))
    assert [(file.label, file.is_text, file.ending) for file in kept] == [
        ("artifact notes.txt", True, None),
        ("image/png of turn 1", False, ".png"),
        ("the run's log", True, None),
    ]
    app = stage(watched, target, tmp_path)
    async with app.run_test() as pilot:
        await pilot.press("o")
        assert isinstance(app.screen, ChooseScreen)
        assert app.screen.query_one(OptionList).option_count == 3
        await pilot.press("j", "k", "enter")
        await settled(pilot)
        assert told(app) == ["there is no terminal here that another program could have"]
        with pytest.raises(UsageError), away(app):
            raise AssertionError("the terminal was left")
    watched.close()


async def test_links_of_a_run_from_elsewhere_are_no_files_of_it(tmp_path: Path) -> None:
    run, secret, notes = tmp_path / "run", tmp_path / "secret", digest_of(RUDE)
    secret.write_text("a key of this machine's")
    one = record("g1-0", artifacts=(Artifact(name="notes.txt", digest=notes, bytes=len(RUDE)),))
    async with open_writer(run, resolved=RESOLVED, given="", resume=False) as writer:
        await writer.add(one, {notes: RUDE})
    (run / "logs").mkdir(exist_ok=True)
    for path in (run / "logs" / "run.log", run / "media" / notes.removeprefix("sha256:")):
        path.unlink(missing_ok=True)
        path.symlink_to(secret)
    watched = WatchedRun(run, {}, standing)
    await watched.open()
    assert list(kept_files(watched, Target("g1-0", 0, 0))) == []
    watched.close()


@pytest.mark.parametrize(
    ("mime_type", "content"),
    [
        ("audio/unheard-of", b"<html><script>alert(1)</script>"),
        ("audio/x-mpegurl", b"#EXTM3U\nhttp://evil.test/\n"),
        ("image/png-not", b"[Desktop Entry]\nExec=sh\n"),
        ("image/svg+xml", b"<svg/>"),
        ("image/png", b"[Desktop Entry]\nExec=sh\n"),
        ("video/mp4", b""),
    ],
)
def test_the_desktop_gets_nothing_that_it_may_take_for_something_else(
    tmp_path: Path, mime_type: str, content: bytes
) -> None:
    (tmp_path / "kept").write_bytes(content)
    assert Kept("said to be harmless", tmp_path / "kept", mime_type).ending is None
