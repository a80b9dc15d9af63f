"""What a run's rollouts have in common, and from there to the rollouts themselves."""

from pathlib import Path

from rollouthub.store.notes import NoteChange, add
from rollouthub_tui.widgets.breakdown.breakdown_table import BreakdownTable
from rollouthub_tui.widgets.rollouts.pane import RolloutsPane
from tests.tui.made import finished_run
from tests.tui.walking import Walker, go, lines, run_of, shows, walking

GOOD = Path("runs") / "good"


def table_of(pilot: Walker) -> BreakdownTable:
    return pilot.app.screen.query_one(BreakdownTable)


def listed(pilot: Walker) -> list[int]:
    found = pilot.app.screen.query_one(RolloutsPane).among
    assert found is not None
    return found.page(0, len(found))


async def test_tools_are_counted_and_lead_to_their_rollouts(at_home: Path) -> None:
    async with walking(at_home, run=GOOD, size=(120, 30)) as pilot:
        await go(pilot, "5", to="calculate")
        row = next(line for line in lines(pilot) if "calculate" in line)
        # rollouts, mean, interval, calls, errors, passed
        assert row.split()[1:] == ["calculate", "32", "0.633", "(0.346–0.852)", "64", "34", "63.3%"]
        line = table_of(pilot).line
        assert line is not None and line.name == "calculate"
        await go(pilot, "enter", to="tool calculate")
        environments = {run_of(pilot).feed.columns.words["environment"][place] for place in listed(pilot)}
        assert environments == {"arithmetic"} and len(listed(pilot)) == 32
        assert shows(pilot, "32, filtered from 96")
        await go(pilot, "escape", to="1 of 96 ·")


async def test_faults_are_clusters_with_a_message_and_lead_to_all_their_attempts(at_home: Path) -> None:
    async with walking(at_home, run=GOOD, size=(160, 30)) as pilot:
        await go(pilot, "5", to="calculate")
        await go(pilot, "left", to="latest message")
        row = next(line for line in lines(pilot) if "model:ModelError" in line)
        assert "1         4         1  http://127.0.0.1:8000/v1 answered" in row
        await go(pilot, "j", "enter", to="fault model:ModelError")
        assert len(listed(pilot)) == 4  # three of them were replaced
        assert sum(run_of(pilot).feed.columns.effective[place] for place in listed(pilot)) == 1


async def test_a_stop_and_a_tag_become_a_filter(tmp_path: Path, at_home: Path) -> None:
    run = await finished_run(tmp_path / "tagged")
    add(run, NoteChange("code-00-1", 0, tags=('say "hi"',)), by="anna")
    async with walking(at_home, run=run, size=(120, 30)) as pilot:
        await go(pilot, "5", to="calculate")
        await go(pilot, "right", "right", to="turn limit")
        await go(pilot, "right", to="say")
        await go(pilot, "enter", to="filter tag ==")
        assert [run_of(pilot).feed.columns.texts["rollout_id"][place] for place in listed(pilot)] == ["code-00-1"]
