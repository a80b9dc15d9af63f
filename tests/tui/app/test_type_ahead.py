"""Keys that come in one burst, as from a paste, `tmux send-keys` or quick fingers: each goes where it is meant."""

from pathlib import Path

import pytest
from textual.events import Key, Paste
from textual.keys import _character_to_key  # pyright: ignore[reportPrivateUsage]  # what a driver names keys by
from textual.widgets import Input

from rollouthub_tui.app import type_ahead
from rollouthub_tui.screens.pair import PairScreen
from rollouthub_tui.screens.rollout import RolloutScreen
from rollouthub_tui.screens.run import RunScreen
from rollouthub_tui.screens.runs import RunsScreen
from rollouthub_tui.widgets.rollout.document_view import DocumentView
from rollouthub_tui.widgets.rollouts.pane import RolloutsPane
from tests.tui.walking import Walker, settled, walking


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys wait for what is read, however long that takes a busy machine."""
    monkeypatch.setattr(type_ahead, "PATIENCE_SECONDS", 60.0)


async def burst(pilot: Walker, *keys: str) -> None:
    """Press keys without a pause between them, words letter by letter, and wait for what comes of it."""
    for key in keys:
        named = key in ("enter", "escape", "tab", "backspace", "down")
        for each in [key] if named else key:
            name = each if named or each.isalnum() else _character_to_key(each)
            pilot.app.post_message(Key(name, None if named else each))
    await settled(pilot)


async def test_keys_after_one_that_opens_a_screen_are_for_that_screen(at_home: Path) -> None:
    async with walking(at_home, roots=(Path("runs"),)) as pilot:
        await burst(pilot, "jk", "enter", "2", "jjj", "enter", "2")
        screen = pilot.app.screen
        assert isinstance(screen, RolloutScreen)
        pane = pilot.app.screen_stack[-2].query_one(RolloutsPane)
        assert pane.table.cursor == 3
        assert pane.target is not None and screen.target is not None
        assert screen.target.rollout_id == pane.target.rollout_id
        assert isinstance(screen.focused, DocumentView) and screen.focused.id == "score"
        await burst(
            pilot, "escape", "3", "j", "enter", "d", "q", "q", "?", "q", "T"
        )  # `d` opens what the first `q` leaves
        assert isinstance(pilot.app.screen, RunsScreen)
        assert pilot.app.theme == "rollouthub-light"


async def test_keys_are_waited_with_until_what_they_are_about_is_read(at_home: Path) -> None:
    async with walking(at_home, roots=(Path("runs"),)) as pilot:
        await burst(pilot, "/good", "enter", "enter", "2", "j", "d", "enter", "/order", "enter", "n")
        screen = pilot.app.screen
        assert isinstance(screen, RolloutScreen)
        assert isinstance(pilot.app.screen_stack[-2], PairScreen)
        conversation = screen.query_one("#conversation", DocumentView)
        assert conversation.matches is not None
        assert conversation.matches.pattern.pattern == "order"
        assert len(conversation.matches.found) > 0


async def test_a_line_to_type_in_takes_what_is_typed_ahead_and_gives_the_keys_back(at_home: Path) -> None:
    async with walking(at_home, run=Path("runs/good")) as pilot:
        screen = pilot.app.screen
        assert isinstance(screen, RunScreen)
        await burst(pilot, "2", "f", 'outcome == "scored" and turns > 0', "enter", "/arith", "enter", "jj", "x")
        pane = screen.query_one(RolloutsPane)
        assert pane.rollout_query.where.text == 'outcome == "scored" and turns > 0'
        assert pane.rollout_query.search == "arith"
        assert (pilot.app.focused, pane.table.cursor) == (pane.table, 2)
        await burst(pilot, "/nonsense", "escape", "j")
        assert (pane.rollout_query.search, pane.table.cursor) == ("arith", 1)


async def test_a_question_gets_the_keys_typed_after_the_one_that_asks_it(at_home: Path) -> None:
    async with walking(at_home, run=Path("runs/good")) as pilot:
        screen = pilot.app.screen
        await burst(pilot, "2", "R", "n", "jj", "R", "escape", "3")
        assert pilot.app.screen is screen
        assert isinstance(screen, RunScreen)
        assert screen.query_one(RolloutsPane).table.cursor == 2
        assert screen.pane == "tasks"


async def test_what_is_pasted_stays_between_the_keys_around_it(at_home: Path) -> None:
    async with walking(at_home, run=Path("runs/good")) as pilot:
        for event in (Key("2", "2"), Key("slash", "/"), Paste("arith"), Key("enter", None), Key("j", "j")):
            pilot.app.post_message(event)
        await settled(pilot)
        pane = pilot.app.screen.query_one(RolloutsPane)
        assert (pane.query_one(Input).value, pane.rollout_query.search, pane.table.cursor) == ("arith", "arith", 1)


async def test_a_paste_alone_is_taken_though_nothing_comes_after_it(at_home: Path) -> None:
    async with walking(at_home, roots=(Path("runs"),)) as pilot:
        pilot.app.post_message(Key("enter", None))
        pilot.app.post_message(Paste("words"))
        await settled(pilot)
        await burst(pilot, "2")
        assert isinstance(pilot.app.screen, RunScreen)
        assert pilot.app.screen.pane == "rollouts"


async def test_a_key_that_leaves_does_not_wait_for_what_is_read(at_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_ahead, "PATIENCE_SECONDS", 0.0)
    async with walking(at_home, roots=(Path("runs"),)) as pilot:
        pilot.app.post_message(Key("enter", None))
        pilot.app.post_message(Key("j", "j"))
        pilot.app.post_message(Key("escape", None))
        await settled(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)
