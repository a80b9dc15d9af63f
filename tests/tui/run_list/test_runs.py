"""The list of runs: which there are, how far they are, and what leads on from it."""

import shutil
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketStream
from textual.pilot import Pilot
from textual.widgets import Input

from rollouthub import Outcome, Score
from rollouthub.store import open_run, open_writer
from rollouthub_tui.screens.runs import RunsScreen
from rollouthub_tui.widgets.cells import MARKED
from rollouthub_tui.widgets.run_list.run_table import RunsTable
from tests.live.control.conftest import Guest, Watch, until
from tests.store.records import RESOLVED, record, write
from tests.tui.led import led, lines, notes, settle, shown, told

PLAYED: dict[str, Any] = {
    "request": {"environments": ["/home/me/hall.py", "code"], "agent": "tool_loop", "model": "openai/small"}
}


async def played(directory: Path) -> None:
    async with open_writer(directory, resolved=PLAYED, given="", resume=False) as writer:
        writer.set_plan(4)
        await writer.add(record("a-0"))
        await writer.add(record("b-0", outcome=Outcome.AGENT_FAILED))


async def test_runs_come_live_ones_first_with_what_they_came_to_and_broken_ones_with_why(tmp_path: Path) -> None:
    await played(tmp_path / "ended")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.db").write_bytes(b"no database" * 99)
    async with open_writer(tmp_path / "playing", resolved=RESOLVED, given="", resume=False) as writer:
        writer.set_plan(8)
        await writer.add(record("a-0"))
        with open_run(tmp_path / "playing") as reader:
            await until(lambda: reader.info.planned == 8 and reader.outcomes())
        async with led(RunsScreen(), roots=[tmp_path], size=(200, 30)) as (pilot, where):
            rows = [line.split() for line in lines(pilot)[2:5]]
            assert [row[:2] for row in rows] == [["›", "playing"], ["ended", "finished"], ["broken", "unreadable"]]
            assert "running" in rows[0]
            assert "█▊·" in " ".join(rows[0])
            assert {"hall.py,", "code", "tool_loop", "openai/small", "2/4", "1.000", "100.0%"} <= set(rows[1])
            assert "cannot be read (file is not a database)" in lines(pilot)[4]
            assert told(pilot, "title") == "Runs   3, 1 live"
            await pilot.press("G", "enter")
            assert "is damaged or no database" in notes(pilot)[-1]
            assert where == []
            await pilot.press("k", "enter")
            assert where == [("run", tmp_path / "ended")]
            assert "2/4 done, 1 scored" in told(pilot, "detail")


async def test_two_runs_are_marked_and_compared(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        await write(tmp_path / name, [record("a-0")])
    async with led(RunsScreen(), roots=[tmp_path]) as (pilot, where):
        table = pilot.app.screen.query_one(RunsTable)
        names = [run.name for run in table.shown]
        await pilot.press("c")
        assert "Mark two runs with space" in notes(pilot)[-1]
        await pilot.press("space")
        assert [line[1] for line in lines(pilot)[2:5]] == [MARKED, " ", " "]
        await pilot.press("j", "c")
        assert where.pop() == ("comparison", tmp_path / names[0], tmp_path / names[2])
        await pilot.press("k", "space", "g", "c")
        assert where.pop() == ("comparison", tmp_path / names[0], tmp_path / names[1])
        await pilot.press("G", "space", "c")
        assert "3 runs are marked" in notes(pilot)[-1]
        await pilot.press("y")
        assert notes(pilot)[-1] == f"Copied {tmp_path / names[2]}"


async def test_a_search_leaves_what_has_its_letters_and_its_end_brings_all_back(tmp_path: Path) -> None:
    await played(tmp_path / "first")
    await write(tmp_path / "second", [record("a-0")])
    async with led(RunsScreen(), roots=[tmp_path]) as (pilot, where):
        table = pilot.app.screen.query_one(RunsTable)
        await pilot.press("slash", *"opsm")
        assert [run.name for run in table.shown] == ["first"]
        await pilot.press("enter", "enter")
        assert where == [("run", tmp_path / "first")]
        await pilot.press("slash", *"xx")
        await settle(pilot)
        assert "No run has the letters 'xx'" in shown(pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert table.count == 2
        assert not pilot.app.screen.query_one(Input).display
        assert table.has_focus


async def test_without_runs_it_says_how_to_make_one_and_where_it_looked(tmp_path: Path) -> None:
    async with led(RunsScreen(), roots=[tmp_path / "none"]) as (pilot, where):
        assert "hub run arithmetic" in shown(pilot)
        assert str(tmp_path / "none")[:60] in shown(pilot)
        await pilot.press("enter", "space", "c", "y", "G")
        assert where == []


async def test_rude_names_are_plain_and_a_run_that_goes_away_is_gone(tmp_path: Path) -> None:
    rude = "a\x1b[31m[bold]red\u202e\x07 \nb"
    await write(tmp_path / rude, [record("a-0")])
    await write(tmp_path / "other", [record("a-0")])
    async with led(RunsScreen(), roots=[tmp_path], size=(120, 24)) as (pilot, _):
        assert "a[bold]red b" in shown(pilot)
        await pilot.press("j")
        assert not {"\x1b", "\x07", "\u202e"} & set(shown(pilot) + told(pilot, "detail"))
        screen, table = pilot.app.screen, pilot.app.screen.query_one(RunsTable)
        assert isinstance(screen, RunsScreen)
        await pilot.press("G", "space")
        shutil.rmtree(tmp_path / "other")
        screen.on_screen_resume()
        await settle(pilot)
        assert [run.name for run in table.shown] == [rude]


async def test_a_thousand_runs_are_listed_and_only_those_in_view_are_read(tmp_path: Path) -> None:
    await write(tmp_path / "made", [record("a-0", turns=())])
    for number in range(1000):
        folder = tmp_path / "many" / f"run-{number:04}"
        folder.mkdir(parents=True)
        (folder / "run.db").symlink_to(tmp_path / "made" / "run.db")
    async with led(RunsScreen(), roots=[tmp_path / "many"]) as (pilot, _):
        table = pilot.app.screen.query_one(RunsTable)
        assert table.count == 1000
        seen = len(table.visible_rows())
        assert sum(table.tallies.of(run) is not None for run in table.shown) == seen
        await pilot.press("G")
        await settle(pilot)
        assert "run-0999" in shown(pilot)
        assert sum(table.tallies.of(run) is not None for run in table.shown) == 2 * seen
        assert lines(pilot)[table.region.bottom - 1].split()[-4:] == ["1", "1.000", "100.0%", "now"]


async def test_a_run_with_a_hub_shows_what_it_says_and_a_socket_that_answers_nothing_is_told(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=2) as playing:
        await until(lambda: guest.waiting == 2)
        mute = playing.sockets[0].parent / "mute.sock"
        async with await anyio.create_unix_listener(mute, mode=0o600) as listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, hang_up)
            async with led(RunsScreen(), environ=playing.environ, size=(200, 30)) as (pilot, where):
                row = lines(pilot)[2].split()
                assert {"running", "hall", "guest", "0/2"} <= set(row)
                assert "can be steered" in told(pilot, "detail")
                assert "mute.sock went away" in shown(pilot)
                await pilot.press("l")
                assert where == [("run", playing.directory)]
            tasks.cancel_scope.cancel()


async def hang_up(stream: SocketStream) -> None:
    """Answer nothing."""
    await stream.aclose()


async def test_leaving_while_runs_are_looked_at_breaks_nothing(tmp_path: Path) -> None:
    await write(tmp_path / "one", [record("a-0")])
    async with led(RunsScreen(), roots=[tmp_path]) as (pilot, _):
        screen = pilot.app.screen
        assert isinstance(screen, RunsScreen)
        screen.on_screen_resume()


async def made(tmp_path: Path) -> None:
    """Three ended runs: of reward 1 by `openai/large`, of 0 by `openai/small`, and one without a score."""
    for name, reward, model in (("best", 1.0, "large"), ("worst", 0.0, "small"), ("lost", None, "large")):
        resolved: dict[str, Any] = {"request": {**PLAYED["request"], "model": f"openai/{model}"}}
        async with open_writer(tmp_path / name, resolved=resolved, given="", resume=False) as writer:
            if reward is None:
                await writer.add(record("a-0", outcome=Outcome.AGENT_FAILED))
            else:
                await writer.add(record("a-0", score=Score(reward=reward, passed=bool(reward))))


def names(pilot: Pilot[None]) -> list[str]:
    return [run.name for run in pilot.app.screen.query_one(RunsTable).shown]


async def test_runs_are_sorted_by_the_next_column_and_the_header_shows_by_which(tmp_path: Path) -> None:
    await made(tmp_path)
    async with led(RunsScreen(), roots=[tmp_path], size=(160, 20)) as (pilot, _):
        newest = names(pilot)
        await pilot.press("s")
        assert names(pilot) == ["best", "lost", "worst"] and "run▲" in lines(pilot)[1]
        await pilot.press("S")
        assert names(pilot) == ["worst", "lost", "best"] and "run▼" in lines(pilot)[1]
        assert told(pilot, "title") == "Runs   3, 0 live   by run ▼"
        for _ in range(20):
            await pilot.press(">")
            if "▼reward" in lines(pilot)[1]:
                break
        assert names(pilot) == ["best", "worst", "lost"], "one without a reward is last"
        await pilot.press("S")
        assert names(pilot) == ["worst", "best", "lost"] and "▲reward" in lines(pilot)[1]
        await pilot.press("<")
        assert "unscored" in told(pilot, "title")
        for _ in range(20):
            if " by " not in told(pilot, "title"):
                break
            await pilot.press("<")
        assert names(pilot) == newest
        header = lines(pilot)[1]
        await pilot.click(RunsTable, offset=(header.index("model"), 0))
        assert "model▲" in lines(pilot)[1] and names(pilot)[-1] == "worst"


async def test_runs_are_filtered_by_an_expression_with_what_is_wrong_in_it(tmp_path: Path) -> None:
    await made(tmp_path)
    async with led(RunsScreen(), roots=[tmp_path], size=(120, 20)) as (pilot, _):
        await pilot.press("f", *"reward >= 1", "enter")
        await settle(pilot)
        assert names(pilot) == ["best"] and "1 of filter reward >= 1" in told(pilot, "title")
        await pilot.press("f", *(["backspace"] * 11), *'model ~ "LARGE" and scored == 0', "enter")
        await settle(pilot)
        assert names(pilot) == ["lost"]
        await pilot.press("f", *(["backspace"] * 40), *"colour > 1", "enter")
        assert "no column is named 'colour'" in shown(pilot)
        await pilot.press("escape")
        assert names(pilot) == ["lost"], "what is not understood changes nothing"
        await pilot.press("f", *(["backspace"] * 40), *"live", "enter")
        assert names(pilot) == [] and "No run is like that: live" in shown(pilot)
        await pilot.press("escape")
        assert len(names(pilot)) == 3


async def test_an_order_by_reward_reads_runs_that_are_not_in_view(tmp_path: Path) -> None:
    for number in range(60):
        score = Score(reward=number / 100)
        await write(tmp_path / f"run-{number:02}", [record("a-0", turns=(), score=score)])
    async with led(RunsScreen(), roots=[tmp_path], size=(100, 14)) as (pilot, _):
        table = pilot.app.screen.query_one(RunsTable)
        assert len(table.visible_rows()) < 20
        for _ in range(12):
            if table.order == "reward":
                break
            await pilot.press("s")
        await settle(pilot)
        assert names(pilot)[:3] == ["run-59", "run-58", "run-57"]
