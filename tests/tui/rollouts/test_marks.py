"""Marks in the list of rollouts: they stay with their rollouts, whatever is listed."""

from pathlib import Path

from rollouthub.store import LiveState
from rollouthub_tui.widgets.cells import MARKED
from rollouthub_tui.widgets.rollouts.pane import RolloutsPane
from tests.store.records import record, write
from tests.tui.rollouts.shown import app_for, lines, said
from tests.tui.stage import watched
from tests.tui.walking import settled


async def test_a_mark_stays_with_its_rollout_through_filters_and_orders(ended: Path, tmp_path: Path) -> None:
    run = watched(ended, tmp_path)
    await run.open()
    pane = RolloutsPane()
    app, _ = app_for(run, pane, tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("e")
        await pilot.press("A")
        assert said(pane).startswith("1 of 7, filtered from 96 · 7 marked")
        await pilot.press("j", "space")  # not any more
        await pilot.press("escape", "s")
        assert "6 marked" in said(pane)
        outcomes = {run.feed.columns.value("outcome", target.place or 0) for target in pane.targets}
        assert len(pane.targets) == 6 and "scored" not in outcomes
        shown = [line for line in lines(pane.table)[1:] if line[1] == MARKED]
        assert 0 < len(shown) <= 6 and not any("passed" in line[:20] for line in shown)
        await pilot.press("U")
        assert pane.targets == [] and "marked" not in said(pane)
    run.close()


async def test_a_mark_on_a_rollout_in_flight_stays_when_it_has_ended(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("g1-0"), record("g1-1")])
    run = watched(tmp_path / "run", tmp_path)
    await run.open()
    pane = RolloutsPane()
    app, _ = app_for(run, pane, tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        run.feed.live = [LiveState("g1-1", "arithmetic", "test/g1", 1, 0, "model", 1, 9, 1.0)]
        pane.show(run)
        await pilot.press("space")
        assert [(target.rollout_id, target.place) for target in pane.targets] == [("g1-1", None)]
        run.feed.live = []
        pane.show(run)
        await settled(pilot)
        assert [(target.rollout_id, target.place) for target in pane.targets] == [("g1-1", 1)]
    run.close()
