"""The rollouts of a run, by keys and by mouse: each key does what it says."""

import time
from pathlib import Path

import anyio
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input

from rollouthub import Outcome
from rollouthub.live.follow import RunFeed
from rollouthub_tui.widgets.rollouts.pane import RolloutsPane
from tests.store.records import RESOLVED, conversation, record, write
from tests.tui.made import playing_run
from tests.tui.rollouts.shown import PaneScreen, app_for, lines, problem, said
from tests.tui.stage import watched
from tests.tui.walking import settled


def places(pane: RolloutsPane) -> list[int]:
    """The places that are listed."""
    found = pane.among
    assert found is not None
    return found.page(0, len(found))


def outcome(pane: RolloutsPane, feed: RunFeed) -> str | None:
    """How the rollout at the cursor ended."""
    assert pane.target is not None and pane.target.place is not None
    return feed.columns.words["outcome"][pane.target.place]


async def searched(pilot: Pilot[None], screen: PaneScreen) -> None:
    """Wait until the transcripts are searched."""
    pane = screen.pane
    assert isinstance(pane, RolloutsPane)
    with anyio.fail_after(60):
        while pane.hits is not None and pane.hits.is_searching:
            await pilot.pause()
    screen.tick()
    await pilot.pause()


async def typed(pilot: Pilot[None], text: str) -> None:
    """Type a text at a stroke."""
    pilot.app.screen.query_one(Input).insert_text_at_cursor(text)
    await pilot.pause()


async def test_rows_are_sorted_filtered_and_searched_by_keys(ended: Path, tmp_path: Path) -> None:
    run = watched(ended, tmp_path)
    await run.open()
    pane = RolloutsPane()
    app, screen = app_for(run, pane, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        head = lines(pane.table)[0]
        assert head.split() == ["state", "task", "turns", "tokens", "reward", "time"]
        assert said(pane) == "1 of 96 · newest first"
        feed = run.feed

        await pilot.press("s", "s", "s", "s", "s")  # state, task, turns, tokens, reward
        rewards = [feed.columns.value("reward", place) for place in places(pane)]
        present = [reward for reward in rewards if isinstance(reward, float)]
        assert present == sorted(present, reverse=True) and rewards[len(present) :] == [None] * (96 - len(present))
        assert "▼reward" in lines(pane.table)[0]
        await pilot.press("S")
        assert (pane.rollout_query.sort, pane.rollout_query.descending) == ("reward", False)
        await pilot.press("s", "s")
        assert said(pane) == "1 of 96 · newest first"

        await pilot.press("f")
        await typed(pilot, "rewar < 0.5")
        assert problem(pane).splitlines()[1].startswith("no column is named 'rewar'; did you mean 'reward'?")
        await pilot.press("enter")  # is not entered
        assert len(places(pane)) == 96
        await pilot.press("home", *["right"] * 5, "d")
        assert problem(pane) == ""
        await typed(pilot, "x")
        assert problem(pane).splitlines()[0].index("^") == len("filter ")
        await pilot.press("backspace", "enter")
        assert all(feed.columns.numbers["reward"][place] < 0.5 for place in places(pane))
        count = len(places(pane))
        assert said(pane) == f"1 of {count}, filtered from 96 · newest first · filter reward < 0.5 · esc clears filter"

        await pilot.press("slash", *"cust7")
        assert 0 < len(places(pane)) < count
        await pilot.press("escape")
        assert len(places(pane)) == count and "search" not in said(pane)
        await pilot.press("slash", *"zzz", "enter")
        assert places(pane) == [] and "esc clears search" in lines(pane.table)[1]
        await pilot.press("escape")
        assert len(places(pane)) == count
        await pilot.press("escape")
        assert (len(places(pane)), screen.backs) == (96, 0)
        await pilot.press("escape")
        assert screen.backs == 1
    run.close()


async def test_errors_extremes_and_other_samples_are_gone_to(ended: Path, tmp_path: Path) -> None:
    run = watched(ended, tmp_path)
    await run.open()
    pane = RolloutsPane()
    app, screen = app_for(run, pane, tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        feed, columns = run.feed, run.feed.columns
        await pilot.press("n")
        first = pane.table.cursor
        assert outcome(pane, feed) != "scored"
        await pilot.press("n", "N")
        assert pane.table.cursor == first
        await pilot.press("e")
        assert len(places(pane)) == sum(count for kind, count in feed.counts.outcomes.items() if kind != "scored") == 7
        await pilot.press("a")
        assert len(places(pane)) == 10 and any("replaced" in line for line in lines(pane.table))
        await pilot.press("b")
        assert said(pane).startswith("nothing that is listed has a reward · ")
        await pilot.press("escape", "escape", "b")
        assert pane.target is not None and pane.target.place is not None
        best = columns.value("reward", pane.target.place)
        assert best == 1.0
        await pilot.press("d")
        await pilot.press("w")
        worst = pane.target
        assert worst is not None and worst.place is not None and columns.value("reward", worst.place) == 0.0
        await pilot.press("t", "enter", "L")
        assert "nothing is in flight" in said(pane)
        assert screen.asked == [columns.words["group_id"][worst.place]]
        (pair, opened) = app.opened
        assert (
            pair[0] == "pair"
            and columns.words["group_id"][int(str(pair[1]))] == columns.words["group_id"][int(str(pair[2]))]
        )
        assert opened == ("rollout", worst.rollout_id, worst.attempt, pane.among)

        pane.only_group("code-03")
        assert {columns.words["group_id"][place] for place in places(pane)} == {"code-03"}
        assert "task code/test/3" in said(pane)
    run.close()


async def test_a_click_selects_a_second_opens_and_one_on_a_title_sorts(ended: Path, tmp_path: Path) -> None:
    run = watched(ended, tmp_path)
    await run.open()
    pane = RolloutsPane()
    app, _ = app_for(run, pane, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        table = pane.table
        await pilot.click(table, offset=(10, 4))
        assert table.cursor == 3
        await pilot.click(table, offset=(10, 6), times=2)
        assert [what[:1] for what in app.opened] == [("rollout",)]
        at = lines(table)[0].index("turns")
        await pilot.click(table, offset=(at, 0))
        assert (pane.rollout_query.sort, pane.rollout_query.descending) == ("turns", True)
        await pilot.click(table, offset=(at + 1, 0))
        assert (pane.rollout_query.sort, pane.rollout_query.descending) == ("turns", False)
    run.close()


async def test_transcripts_are_searched_and_gone_through(ended: Path, tmp_path: Path) -> None:
    run = watched(ended, tmp_path)
    await run.open()
    pane = RolloutsPane()
    app, screen = app_for(run, pane, tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        for letter in "F(geometric":  # at a stroke: none of them is taken for a key of the table
            app.post_message(Key(letter, letter))
        await settled(pilot)
        assert pane.query_one(Input).value == "(geometric"
        assert "unterminated" in problem(pane)
        await pilot.press("home", "delete", "enter")
        await searched(pilot, screen)
        wanted = sum(run.feed.columns.words["environment"][place] == "code" for place in range(len(run.feed.columns)))
        assert "transcripts /geometric/" in said(pane) and f"{wanted} matches" in said(pane)
        assert len(places(pane)) == sum(
            run.feed.columns.words["environment"][place] == "code" for place in run.feed.columns.effective_places(0, 99)
        )
        assert "The sum is a *geom" in lines(pane.table)[1]
        assert (pane.pattern, run.pattern) == ("geometric", "geometric")
        await pilot.press("N")
        assert pane.table.cursor == pane.table.count - 1
        await pilot.press("n")
        assert pane.table.cursor == 0
        await pilot.press("escape")
        assert (len(places(pane)), run.pattern) == (96, None)
    run.close()


async def test_an_expression_that_would_take_forever_holds_nobody_up(tmp_path: Path) -> None:
    trap = conversation(1)[0].model_copy(update={"index": 0})
    trap = trap.model_copy(update={"response": trap.response.model_copy(update={"content": "a" * 80 + "!"})})
    await write(tmp_path / "run", [record(f"g{number}-0", turns=(trap,)) for number in range(4)])
    run = watched(tmp_path / "run", tmp_path)
    await run.open()
    pane = RolloutsPane()
    app, _ = app_for(run, pane, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("F")
        await typed(pilot, "(a+)+b")
        began = time.monotonic()
        await pilot.press("enter", "j", "escape")
        assert pane.hits is None and len(places(pane)) == 4
    assert time.monotonic() - began < 30
    run.close()


async def test_what_is_in_flight_comes_first_and_is_gone_to(tmp_path: Path) -> None:
    async with playing_run(tmp_path / "run"):
        run = watched(tmp_path / "run", tmp_path)
        await run.open()
        pane = RolloutsPane()
        app, _ = app_for(run, pane, tmp_path)
        async with app.run_test(size=(100, 40)) as pilot:
            await pilot.pause()
            shown = lines(pane.table)
            assert [line[2:].split()[1] for line in shown[1:5]] == ["queued", "setup", "model", "tool"]
            assert "12 in flight" in said(pane)
            await pilot.press("L", "L")
            assert pane.target is not None and (pane.target.place, pane.table.cursor) == (None, 2)
            await pilot.press("f")
            await typed(pilot, 'env == "code" and not reward > 2')
            await pilot.press("enter")
            assert all(state.environment == "code" for state in pane.table.flights.states)
            assert 0 < len(pane.table.flights) < 12
            await pilot.press("e", "L")
            assert "what is in flight is not listed now" in said(pane)
        run.close()


async def test_the_cursor_stays_at_its_rollout_whatever_comes(tmp_path: Path) -> None:
    async with playing_run(tmp_path / "run") as writer:
        run = watched(tmp_path / "run", tmp_path)
        await run.open()
        pane = RolloutsPane()
        app, screen = app_for(run, pane, tmp_path)
        async with app.run_test(size=(100, 20)) as pilot:
            await pilot.pause()
            table = pane.table
            await writer.add(record("new0-0"))
            await writer.flush()
            screen.tick()
            assert table.cursor == 0  # it was at the top, and follows what comes
            await pilot.press(*["j"] * 16)
            target, at = pane.target, table.cursor - table.scroll_offset.y
            assert target is not None and target.place is not None
            for number in range(5):
                await writer.add(record(f"new{number + 1}-0", outcome=Outcome.MODEL_FAILED))
            await writer.flush()
            screen.tick()
            await pilot.pause()
            assert (pane.target, table.cursor - table.scroll_offset.y) == (target, at)
            await pilot.press("s", "s", "S")
            assert pane.target == target
            await pilot.press("g", "j")
            flying = pane.target
            assert flying is not None and flying.place is None
            await writer.add(record("arithmetic-9-0", rollout_id=flying.rollout_id, attempt=flying.attempt))
            await writer.flush()
            screen.tick()
            assert pane.target is not None and pane.target.place is not None
            assert (pane.target.rollout_id, pane.target.attempt) == (flying.rollout_id, flying.attempt)
        run.close()


async def test_a_run_that_died_says_what_it_left(tmp_path: Path) -> None:
    async with playing_run(tmp_path / "run"):
        (tmp_path / "copy").mkdir()
        for name in ("run.db", "run.db-wal"):
            (tmp_path / "copy" / name).write_bytes((tmp_path / "run" / name).read_bytes())
    run = watched(tmp_path / "copy", tmp_path)
    await run.open()
    pane = RolloutsPane()
    app, _ = app_for(run, pane, tmp_path)
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.pause()
        assert "12 left unfinished" in said(pane)
        assert "✗ left in queued" in lines(pane.table)[1]
    run.close()


async def test_a_run_without_rollouts_says_so(tmp_path: Path) -> None:
    async with playing_run(tmp_path / "other"):
        pass
    await write(tmp_path / "run", [])
    run = watched(tmp_path / "run", tmp_path)
    await run.open()
    pane = RolloutsPane()
    app, _ = app_for(run, pane, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("j", "enter", "n", "b", "L", "d", "t", "s")
        assert "this run has no rollouts" in lines(pane.table)[1]
        assert pane.target is None and RESOLVED
    run.close()
