"""What rollouts were asked, answered and told: in columns that take the width that is left, and beside the list."""

from pathlib import Path

import anyio
import pytest
from textual.pilot import Pilot

from rollouthub_tui.widgets.rollouts import rollout_list
from rollouthub_tui.widgets.rollouts.fields import FIELDS, Shape, fit
from rollouthub_tui.widgets.rollouts.pane import RolloutsPane
from rollouthub_tui.widgets.rollouts.preview import LEAST_WIDTH, Preview
from tests.tui.made import playing_run
from tests.tui.rollouts.shown import PaneScreen, app_for, lines, said
from tests.tui.stage import watched
from tests.tui.walking import settled


def shown_text(preview: Preview) -> str:
    """The words of the preview, line by line."""
    return "\n".join(preview.render_line(y).text.rstrip() for y in range(preview.size.height))


async def until_shown(pilot: Pilot[None], screen: PaneScreen, words: str) -> str:
    """Wait until the preview has these words."""
    pane = screen.pane
    assert isinstance(pane, RolloutsPane)
    with anyio.fail_after(30):
        while words not in shown_text(pane.preview):
            await settled(pilot)
    return shown_text(pane.preview)


def test_texts_hide_first_and_share_the_width_that_is_left() -> None:
    def widths(width: int) -> dict[str, int]:
        return {column.name: column.width for column in fit(Shape(), width)}

    assert not {"prompt", "answer", "feedback"} & widths(80).keys()
    assert "feedback" in widths(115) and "prompt" not in widths(115)
    wide, wider = widths(200), widths(260)
    assert wide.keys() >= {"prompt", "answer", "feedback"}
    for name in ("prompt", "answer", "feedback"):
        assert wide[name] >= FIELDS[name].width
        assert wider[name] > wide[name]
    assert sum(wider.values()) + 2 * (len(wider) - 1) == 260  # no cell is left empty
    bare = {column.name for column in fit(Shape(prompts=False, answers=False, feedbacks=False), 260)}
    assert not bare & {"prompt", "answer", "feedback"}


def test_what_differs_comes_before_what_is_said_twice() -> None:
    assert "passed" not in {column.name for column in fit(Shape(), 300)}
    noted = {column.name: column.width for column in fit(Shape(notes=12), 80)}
    assert noted["notes"] == 12


async def test_what_was_asked_answered_and_told_stands_in_the_list(ended: Path, tmp_path: Path) -> None:
    run = watched(ended, tmp_path)
    await run.open()
    pane = RolloutsPane()
    app, screen = app_for(run, pane, tmp_path)
    app.settings.preview = False
    async with app.run_test(size=(200, 30)) as pilot:
        with anyio.fail_after(30):
            while not any("exact match" in line for line in lines(pane.table)):
                screen.tick()
                await settled(pilot)
        row = next(line for line in lines(pane.table) if "exact match" in line)
        assert "How much is 24 × 11?" in row
        assert any("the fixture row 17" in line for line in lines(pane.table))  # a fault is told as feedback
        # Only what is in sight was read.
        assert len(pane.table.previews) == len(pane.table.visible_rows()) < len(run.feed.columns)
    run.close()


async def test_the_rollout_at_the_cursor_is_shown_beside_the_list(ended: Path, tmp_path: Path) -> None:
    run = watched(ended, tmp_path)
    await run.open()
    pane = RolloutsPane()
    app, screen = app_for(run, pane, tmp_path)
    async with app.run_test(size=(LEAST_WIDTH, 40)) as pilot:
        first = await until_shown(pilot, screen, "reward 0.800")
        assert "customer_service/test/7 · sample 3" in first
        assert first.index("reward 0.800") < first.index("turn 2") < first.index("turn 4")
        assert "… 1 earlier turn" in first and "▾ turn 1 " not in first
        await pilot.press("j")
        told = await until_shown(pilot, screen, "the agent answered nothing three times in a row")
        assert "reward 0.800" not in told
        await pilot.press("P")
        assert not pane.preview.display and app.settings.preview is False
        await pilot.press("P", "k")
        assert pane.preview.display
        await until_shown(pilot, screen, "reward 0.800")
        await pilot.resize_terminal(LEAST_WIDTH - 1, 40)
        await settled(pilot)
        assert not pane.preview.display
        await pilot.press("P", "P")
        assert f"from {LEAST_WIDTH} columns on" in said(pane)
    run.close()


async def test_a_preview_that_is_longer_than_its_place_is_scrolled_from_the_list(ended: Path, tmp_path: Path) -> None:
    run = watched(ended, tmp_path)
    await run.open()
    pane = RolloutsPane()
    app, screen = app_for(run, pane, tmp_path)
    async with app.run_test(size=(LEAST_WIDTH, 20)) as pilot:
        await pilot.press("slash", *"code", "enter")
        await until_shown(pilot, screen, "60 tests")
        await pilot.press("J")
        await settled(pilot)
        assert pane.preview.scroll_offset.y > 0 and "60 tests" not in shown_text(pane.preview)
        assert pane.table.cursor == 0
        await pilot.press("K")
        await until_shown(pilot, screen, "60 tests")
    run.close()


async def test_of_a_rollout_in_flight_the_preview_tells_its_stage(tmp_path: Path) -> None:
    async with playing_run(tmp_path / "run"):
        run = watched(tmp_path / "run", tmp_path)
        await run.open()
        pane = RolloutsPane()
        app, screen = app_for(run, pane, tmp_path)
        async with app.run_test(size=(LEAST_WIDTH, 30)) as pilot:
            state = pane.table.flights.states[0]
            assert f"in flight: {state.state}" in await until_shown(pilot, screen, "in flight")
        run.close()


async def test_what_comes_to_the_cursor_by_itself_is_previewed_once_a_second_and_what_is_gone_to_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout_list, "_PREVIEW_SECONDS", 600.0)  # a slow machine's second is soon over
    async with playing_run(tmp_path / "run"):
        run = watched(tmp_path / "run", tmp_path)
        await run.open()
        pane = RolloutsPane()
        app, screen = app_for(run, pane, tmp_path)
        async with app.run_test(size=(LEAST_WIDTH, 30)) as pilot:
            await until_shown(pilot, screen, "in flight")
            first = pane.preview.shown
            run.feed.live = run.feed.live[:-1]  # the one at the cursor has ended: the next one is there now
            pane.show(run)
            assert pane.table.cursor == 0 and pane.preview.shown == first
            await pilot.press("down")
            await settled(pilot)
            assert pane.preview.shown != first
        run.close()
