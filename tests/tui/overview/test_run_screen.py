"""A run's screen: its panes, its keys, and how it keeps up with a run that plays."""

from pathlib import Path

import pytest

from rollouthub import Outcome
from rollouthub.store.trainer_steps import append_step, logged_step
from rollouthub_tui.screens.run import RunScreen
from rollouthub_tui.widgets.machines import MachinesPane
from rollouthub_tui.widgets.overview.pane import OverviewPane
from rollouthub_tui.widgets.overview.panels import EnvironmentsPanel, FiguresPanel, OutcomesPanel, TimelinePanel
from rollouthub_tui.widgets.overview.run_heading import Heading, ProgressPanel
from rollouthub_tui.widgets.overview.tab_line import TabLine
from rollouthub_tui.widgets.rollouts.pane import RolloutsPane
from rollouthub_tui.widgets.rollouts.tasks_table import TasksPane
from tests.store.records import record
from tests.tui.made import MIDWAY, playing_run
from tests.tui.stage import Stage, stage, watched
from tests.tui.walking import Walker, lines, settled, shows, until

GOOD = Path("runs/good")


def app_for(run: Path, home: Path, now: float | None = None) -> Stage:
    """An app that shows a run's screen."""
    clock = (lambda: now) if now is not None else None
    return stage(lambda: RunScreen(watched(run, home, clock) if clock else watched(run, home)), home)


def screen_of(pilot: Walker) -> RunScreen:
    """The screen."""
    assert isinstance(pilot.app.screen, RunScreen)
    return pilot.app.screen


async def opened(pilot: Walker) -> RunScreen:
    """The screen, as soon as the run is read."""
    await settled(pilot)
    screen = screen_of(pilot)
    await until(pilot, lambda: screen.query_one(FiguresPanel).is_drawn)
    return screen


async def test_the_most_important_comes_first_on_a_small_terminal_and_the_rest_is_scrolled_to(at_home: Path) -> None:
    async with app_for(GOOD, at_home).run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        seen = lines(pilot)
        assert seen[0].split() == ["good", "✓", "finished"]
        assert "arithmetic, code, customer_service · tool_loop · openai/small" in seen[1]
        assert "96/96" in seen[2]
        tabs = ["[1", "overview]", "2", "rollouts", "96", "3", "tasks", "24", "4", "machines", "5", "breakdown"]
        assert seen[3].split() == tabs
        for words in ("0.557–0.772", "retried       3", "█ passed ", "+4 more"):
            assert shows(pilot, words), words
        assert not shows(pilot, "29/32")
        await pilot.press("G")
        await until(pilot, lambda: shows(pilot, "29/32"))
        assert screen.query_one(EnvironmentsPanel).content_size.height == 4
        await pilot.press("g")
        await until(pilot, lambda: shows(pilot, "0.557–0.772"))


async def test_a_wide_terminal_is_filled_and_any_size_is_fitted_at_once(at_home: Path) -> None:
    async with app_for(GOOD, at_home).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        bar = screen.query_one(OutcomesPanel)
        await until(pilot, lambda: bar.is_drawn)
        assert shows(pilot, "▒⊘") and shows(pilot, "!?○")
        for width, height in ((200, 60), (80, 24), (40, 10), (300, 100), (99, 20), (150, 30)):
            await pilot.resize_terminal(width, height)
            await settled(pilot)
            await until(pilot, lambda: bar.is_drawn)
            # Of ten lines the bar has none.
            assert height == 10 or bar.text.splitlines()[0] in "\n".join(lines(pilot))
            assert all(len(line) <= width for line in lines(pilot))
            overview = screen.query_one(OverviewPane)
            if (width, height) == (200, 60):
                assert overview.virtual_size.height == overview.size.height
                assert screen.query_one(TimelinePanel).content_size.height >= 16


async def test_a_trainers_loss_is_drawn_beside_the_rewards_as_soon_as_it_is_logged(
    at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(at_home)
    now = Path("runs/now")
    async with playing_run(now), app_for(now, at_home, MIDWAY).run_test(size=(200, 60)) as pilot:
        await opened(pilot)
        assert not shows(pilot, "loss of the trainer")
        append_step(now, logged_step(1, MIDWAY - 30.0, {"loss": 0.5}))
        append_step(now, logged_step(2, MIDWAY - 10.0, {"loss": 0.125}))
        await until(pilot, lambda: shows(pilot, "loss of the trainer, last 0.125"))


async def test_keys_and_clicks_lead_from_pane_to_pane_and_the_cursor_is_the_target(at_home: Path) -> None:
    async with app_for(GOOD, at_home).run_test(size=(100, 30)) as pilot:
        screen = await opened(pilot)
        assert screen.target is None
        for key, kind in (("2", RolloutsPane), ("3", TasksPane), ("4", MachinesPane), ("1", OverviewPane)):
            await pilot.press(key)
            await until(pilot, lambda kind=kind: screen.query_one(kind).has_focus_within)
        await pilot.press("tab")
        await until(pilot, lambda: screen.query_one(RolloutsPane).has_focus_within)
        target = screen.target
        assert target is not None
        assert target.place is not None
        assert screen.watched.feed.columns.texts["rollout_id"][target.place] == target.rollout_id
        await pilot.press("t")
        await until(pilot, lambda: screen.query_one(TasksPane).has_focus_within)
        assert screen.target is None
        await pilot.press("enter")
        await until(pilot, lambda: screen.query_one(RolloutsPane).has_focus_within)
        await until(pilot, lambda: shows(pilot, "1 of 4"))
        await pilot.press("shift+tab")
        assert screen.pane == "overview"
        await pilot.click(TabLine, offset=(str(lines(pilot)[3]).index("machines"), 0))
        await until(pilot, lambda: screen.pane == "machines")
        assert shows(pilot, "the run is finished: nothing plays it any more")


async def test_a_run_that_plays_is_kept_up_with_until_it_has_ended(at_home: Path) -> None:
    directory = at_home / "playing"
    app = app_for(directory, at_home, MIDWAY)
    async with playing_run(directory) as writer, app.run_test(size=(160, 50)) as pilot:
        screen = await opened(pilot)
        assert screen.query_one(Heading).text.split()[:3] == ["playing", "►", "running"]
        progress = screen.query_one(ProgressPanel)
        assert progress.text.split()[1:3] == ["33/96", "34.3%"]
        assert "12 in flight" in progress.text
        assert "▣ tool 2" in screen.query_one(OutcomesPanel).text
        await writer.add(record("new-0", outcome=Outcome.VERIFIER_FAILED, started_at=MIDWAY - 3))
        await writer.flush()
        await until(pilot, lambda: "34/96" in progress.text)
        assert "? verifier fault" in screen.query_one(OutcomesPanel).text
        await pilot.press("4")
        await until(pilot, lambda: shows(pilot, "12 in flight  · queued 2"))
        assert shows(pilot, "the run's hub has not answered yet")


async def test_nothing_ticks_below_another_screen_and_what_was_missed_is_seen_on_return(at_home: Path) -> None:
    directory = at_home / "playing"
    app = app_for(directory, at_home, MIDWAY)
    async with playing_run(directory) as writer, app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await app.push_screen(RunScreen(watched(GOOD, at_home)))
        await settled(pilot)
        await writer.add(record("new-0", started_at=MIDWAY - 3))
        await writer.flush()
        await pilot.pause(0.3)
        assert screen.watched.feed.counts.effective == 33
        app.pop_screen()
        await until(pilot, lambda: "34/96" in screen.query_one(ProgressPanel).text)


@pytest.mark.parametrize("name", ["gone", "empty"])
async def test_a_run_that_cannot_be_opened_is_told_of_and_all_keys_do_no_harm(at_home: Path, name: str) -> None:
    (at_home / "empty").mkdir()
    async with app_for(at_home / name, at_home).run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shows(pilot, "This run cannot be shown."))
        assert "`hub runs` lists" in " ".join(" ".join(lines(pilot)).split())
        for key in ("2", "j", "enter", "3", "4", "tab", "x", "p", "G", "1"):
            await pilot.press(key)
        await pilot.pause()
        assert shows(pilot, "This run cannot be shown.")
