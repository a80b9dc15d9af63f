"""The app around the screens: themes, help, the palette, leaving, breaking."""

import logging
from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from rollouthub_tui.app.app import WatchApp
from rollouthub_tui.crash_message import log_path, logging_beside
from rollouthub_tui.dialogs.questions import ChooseScreen
from rollouthub_tui.screens.help import HelpScreen, shown_key
from rollouthub_tui.screens.runs import RunsScreen
from rollouthub_tui.settings import load_settings
from tests.store.records import record, write
from tests.tui.walking import Walker, home, settled, walking

RUDE = "[@click=app.leave]x[bold] \x1b[31m\u202erun"


async def search_palette(pilot: Walker, letters: str) -> OptionList:
    """Open it, and have it find something."""
    await pilot.press("ctrl+p")
    palette = pilot.app.screen
    assert isinstance(palette, CommandPalette)
    palette.query_one(Input).value = letters
    found = palette.query_one(OptionList)
    for _ in range(500):
        await pilot.pause(0.01)
        if found.option_count and letters.lower()[0] in prompt(found.get_option_at_index(0)).lower():
            return found
    raise AssertionError(f"nothing is found for {letters!r}")


def prompt(option: Option) -> str:
    """What an option says."""
    return str(option.prompt)


async def test_themes_are_toggled_chosen_and_remembered(tmp_path: Path) -> None:
    async with walking(tmp_path) as pilot:
        assert isinstance(pilot.app.screen, RunsScreen)
        assert pilot.app.theme == "rollouthub-dark"
        await pilot.press("T")
        assert pilot.app.theme == "rollouthub-light"
        await search_palette(pilot, "theme nord")
        await pilot.press("down", "enter")
        await settled(pilot)
        assert pilot.app.theme == "nord"
    assert load_settings(home(tmp_path)).theme == "nord"


def test_the_help_shows_keys_as_they_are_typed() -> None:
    named = ("number_sign", "asterisk", "right_square_bracket", "ctrl+d", "shift+tab")
    assert [shown_key(key) for key in named] == ["#", "*", "]", "^d", "shift+tab"]


async def test_help_says_what_the_keys_of_the_screen_do_and_scrolls_and_closes(tmp_path: Path) -> None:
    await write(tmp_path / "runs" / "one", [record("g1-0")])
    async with walking(tmp_path, roots=(tmp_path / "runs",)) as pilot:
        await pilot.press("question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        await pilot.press("G")
        window = pilot.app.screen.query_one("VerticalScroll")
        assert window.max_scroll_y > 0
        assert window.scroll_y == window.max_scroll_y
        await pilot.press("q")
        assert isinstance(pilot.app.screen, RunsScreen)
        await pilot.press("escape", "h", "backspace")
        assert isinstance(pilot.app.screen, RunsScreen), "there is nothing to go back to"
        await pilot.press("q")
        assert pilot.app.return_code == 0


async def test_the_palette_opens_runs_whatever_they_are_called(tmp_path: Path) -> None:
    await write(tmp_path / "runs" / RUDE, [record("g1-0")])
    opened: list[Path] = []

    class Noting(WatchApp):
        def open_run(self, directory: Path) -> None:
            opened.append(directory)

    app = Noting([tmp_path / "runs"], home(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        found = await search_palette(pilot, "open run")
        assert prompt(found.get_option_at_index(0)).startswith("Open run [@click=app.leave]x[bold] run")
        await pilot.press("down", "enter")
        await settled(pilot)
    assert opened == [tmp_path / "runs" / RUDE]
    assert app.return_code in (0, None)


async def test_an_app_that_breaks_says_so_in_two_lines_and_logs_the_rest(tmp_path: Path) -> None:
    environ = home(tmp_path)
    app = WatchApp([], environ)

    def explode() -> None:
        raise ValueError("[bold]boom[/]\x1b]0;owned\x07 Bearer abcdef123")

    with logging_beside(environ):
        with pytest.raises(ValueError, match="boom"):
            async with app.run_test() as pilot:
                app.call_later(explode)
                await pilot.pause()
        assert logging.getLogger().handlers[0].__class__ is logging.FileHandler
    assert app.return_code == 1
    assert app.problem is not None
    assert app.problem.splitlines()[0] == "hub watch broke: ValueError: [bold]boom[/] Bearer abcdef123"
    assert str(log_path(environ)) in app.problem
    log = log_path(environ).read_text()
    assert "Traceback" in log
    assert "abcdef123" not in log
    assert log_path(environ).stat().st_mode & 0o777 == 0o600


async def test_without_runs_help_is_left_and_then_the_app_by_the_same_key(tmp_path: Path) -> None:
    async with walking(tmp_path, roots=(tmp_path / "none",)) as pilot:
        await pilot.press("question_mark", "q")
        assert isinstance(pilot.app.screen, RunsScreen)
        assert pilot.app.screen.focused is None
        await pilot.press("q")
    assert pilot.app.return_code == 0


async def test_paging_through_a_list_that_has_no_room_does_no_harm(tmp_path: Path) -> None:
    async with walking(tmp_path) as pilot:
        options = await search_palette(pilot, "theme")
        await pilot.press("down")
        await pilot.resize_terminal(20, 2)
        await pilot.press("pageup", "pagedown", "escape", "escape")
        assert not options.is_attached
        pilot.app.push_screen(ChooseScreen("Which?", ["one", "other"]))
        await settled(pilot)
        await pilot.press("pageup", "pagedown", "escape")
        assert isinstance(pilot.app.screen, RunsScreen)
