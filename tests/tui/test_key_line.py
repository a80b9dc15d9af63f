"""The keys at the bottom are those that do something here and now; the line at the top says where this is."""

from pathlib import Path

from rollouthub_tui.screens.rollout import RolloutScreen
from rollouthub_tui.widgets.key_line import KeyHint, KeyLine
from tests.tui.made import MIDWAY, playing_run
from tests.tui.walking import Walker, go, lines, settled, shows, until, walking

GOOD = Path("runs") / "good"


def keys(pilot: Walker) -> str:
    """The last line of the screen."""
    return pilot.app.screen.query_one(KeyLine).text


async def test_the_keys_follow_what_is_at_the_cursor(at_home: Path) -> None:
    async with walking(at_home, run=GOOD, size=(160, 30)) as pilot:
        await until(pilot, lambda: "Re-score" in keys(pilot))  # the run has ended
        assert "Cancel" not in keys(pilot) and "Pause" not in keys(pilot)
        await go(pilot, "2")
        await until(pilot, lambda: keys(pilot).startswith("enter Open"))
        assert "f Filter" in keys(pilot) and "Cancel" not in keys(pilot)
        await go(pilot, "e")
        await until(pilot, lambda: keys(pilot).startswith("esc Clear errors only"))
        await go(pilot, "space", "space")
        await until(pilot, lambda: "U Unmark 2" in keys(pilot))
        assert "v Reviewed" in keys(pilot) and "/ Search" not in keys(pilot)
        await go(pilot, "f")
        await until(pilot, lambda: keys(pilot).startswith("enter Apply  esc Leave"))
        await go(pilot, "escape", "5")
        await until(pilot, lambda: "← → By something else" in keys(pilot))


async def test_a_rollout_in_flight_and_its_run_have_the_keys_that_steer_them(tmp_path: Path, at_home: Path) -> None:
    async with playing_run(tmp_path / "run"), walking(at_home, run=tmp_path / "run", now=MIDWAY) as pilot:
        await go(pilot, "2")
        await until(pilot, lambda: keys(pilot).startswith("enter Open"))
        assert "Cancel" not in keys(pilot), "no hub answers for it"


async def test_a_key_that_is_clicked_is_pressed_and_what_does_not_fit_is_left_out(at_home: Path) -> None:
    async with walking(at_home, run=GOOD) as pilot:
        await go(pilot, "2")
        await until(pilot, lambda: "f Filter" in keys(pilot))
        line = pilot.app.screen.query_one(KeyLine)
        assert len(keys(pilot).rstrip()) <= 78 and keys(pilot).rstrip().endswith("? Help  ^p Palette")
        await pilot.click(KeyLine, offset=(1 + keys(pilot).index("f Filter"), 0))
        await until(pilot, lambda: keys(pilot).startswith("enter Apply"))
        line.show_hints([KeyHint("x", "x", "far too long a word " * 9)])
        assert "far" not in line.text


async def test_a_rollout_tells_its_run_task_sample_and_turn(at_home: Path) -> None:
    async with walking(at_home, run=GOOD, size=(120, 30)) as pilot:
        await go(pilot, "2", "Q", "t", to="task customer_service/test/7")
        assert lines(pilot)[0].strip().startswith("good › customer_service/test/7  ")
        await go(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RolloutScreen))
        await until(pilot, lambda: shows(pilot, "good › customer_service/test/7 › sample 3 › turn 1  1 of 4"))
        await go(pilot, "J", "J")
        await until(pilot, lambda: shows(pilot, "› sample 3 › turn 3  1 of 4"))
        await go(pilot, "2")
        await settled(pilot)
        await until(pilot, lambda: not shows(pilot, "› turn"))
