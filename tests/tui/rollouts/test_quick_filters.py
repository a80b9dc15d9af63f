"""Quick and saved filters of the rollouts, by one key each."""

from pathlib import Path

from textual.widgets import OptionList

from rollouthub.live.follow import parse_filter
from rollouthub_tui.dialogs.quick_filters import QUICK, QuickFilterScreen
from rollouthub_tui.settings import load_settings
from rollouthub_tui.widgets.rollouts.pane import RolloutsPane
from tests.tui.walking import Walker, app_of, go, run_of, shows, until, walking

GOOD = Path("runs") / "good"


def listed(pilot: Walker) -> list[int]:
    found = pilot.app.screen.query_one(RolloutsPane).among
    assert found is not None
    return found.page(0, len(found))


def test_every_quick_filter_is_one_that_there_is() -> None:
    for each in QUICK:
        parse_filter(each.text)
    assert len({each.key for each in QUICK}) == len(QUICK)


async def test_a_key_lists_what_failed_what_is_unscored_or_the_samples_of_a_task(at_home: Path) -> None:
    async with walking(at_home, run=GOOD, size=(100, 30)) as pilot:
        await go(pilot, "2", "Q", to="needs review")
        await go(pilot, "u", to="filter reward == null")
        rewards = run_of(pilot).feed.columns.numbers["reward"]
        assert len(listed(pilot)) == 7 and all(rewards[place] != rewards[place] for place in listed(pilot))
        await go(pilot, "Q", "f", to="filter passed == false")
        assert all(run_of(pilot).feed.columns.value("passed", place) is False for place in listed(pilot))
        await go(pilot, "escape", to="1 of 96 ·")
        await go(pilot, "Q", "t", to="task customer_service/test/7")
        assert len(listed(pilot)) == 4
        await go(pilot, "escape", to="1 of 96 ·")
        await go(pilot, "Q", "n", to="left to review")
        await go(pilot, "escape", to="1 of 96 ·")
        await go(pilot, "Q", "escape")
        assert not isinstance(pilot.app.screen, QuickFilterScreen) and len(listed(pilot)) == 96


async def test_a_filter_is_saved_found_again_by_a_key_and_deleted(at_home: Path) -> None:
    environ = {"HOME": str(at_home), "XDG_STATE_HOME": str(at_home / "state")}
    async with walking(at_home, run=GOOD, size=(100, 30)) as pilot:
        await go(pilot, "2", "Q", "S")
        assert isinstance(pilot.app.screen, QuickFilterScreen), "there is no filter to save"
        await go(pilot, "escape", "f", *"turns > 3", "enter", to="filter turns > 3")
        await go(pilot, "Q", "S", to="Save the filter as")
        await go(pilot, *"long ones", "enter", to="saved as long ones")
    assert load_settings(environ).filters == {"long ones": "turns > 3"}
    async with walking(at_home, run=GOOD, size=(100, 30)) as pilot:
        await go(pilot, "2", "Q", to="1  long ones")
        await go(pilot, "1", to="filter turns > 3")
        assert all(run_of(pilot).feed.columns.value("turns", place) == 4 for place in listed(pilot))
        await go(pilot, "Q", "d", to="1  long ones")  # the cursor is at one that everybody has
        pilot.app.screen.query_one(OptionList).highlighted = len(QUICK)
        await go(pilot, "d", to="filter long ones is deleted")
    assert load_settings(environ).filters == {}


async def test_a_saved_filter_that_is_none_any_more_is_told(at_home: Path) -> None:
    async with walking(at_home, run=GOOD, size=(100, 30)) as pilot:
        app_of(pilot).settings.filters = {"bad\x1b[31m": "no_such_column > 3"}
        await go(pilot, "2", "Q", to="no_such_column")
        await go(pilot, "1", to="this filter is not understood")
        await until(pilot, lambda: not shows(pilot, "\x1b"))
        assert len(listed(pilot)) == 96
