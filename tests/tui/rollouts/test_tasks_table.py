"""The tasks of a run: sorted, and opened as a list of their rollouts."""

from pathlib import Path

from rollouthub import Message, Score, Turn
from rollouthub_tui.widgets.rollouts.tasks_table import TasksPane
from tests.store.records import conversation, record, write
from tests.tui.rollouts.shown import app_for, lines, said
from tests.tui.stage import watched
from tests.tui.walking import settled

REWARDS = {"a": (0.0, 1.0), "b": (0.5, 0.75), "c": (1.0, 1.0), "d": (0.25,)}


async def test_tasks_are_sorted_by_what_their_samples_came_to_and_are_opened(tmp_path: Path) -> None:
    made = [
        record(f"{group}-{sample}", score=Score(reward=reward, passed=reward > 0.6), turns=())
        for group, rewards in REWARDS.items()
        for sample, reward in enumerate(rewards)
    ]
    await write(tmp_path / "run", made)
    run = watched(tmp_path / "run", tmp_path)
    await run.open()
    pane = TasksPane()
    app, screen = app_for(run, pane, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()

        def shown() -> str:
            return "".join(line[2:].split()[0][-1] for line in lines(pane.table)[1:5])

        assert shown() == "abcd"
        assert lines(pane.table)[0].split() == ["task", "samples", "passed", "mean", "std", "tokens"]
        assert "nothing to learn" in lines(pane.table)[3]
        assert said(pane) == "1 of 4 tasks · as they were met · enter lists its rollouts"
        orders: list[str] = []
        for _ in range(6):
            await pilot.press("s")
            orders.append(shown())
        assert orders == ["abcd", "cbad", "cbad", "cbad", "cbad", "abcd"]
        await pilot.click(pane.table, offset=(lines(pane.table)[0].index("std"), 0))
        assert shown() == "cbad" and "by std of rewards ▲" in said(pane)
        await pilot.press("S")
        assert shown() == "abcd" and "std▼" in lines(pane.table)[0]
        pane.go_to("c")
        assert pane.table.line is not None and pane.table.line.name == "c"
        await pilot.press("enter")
        assert screen.asked == ["c"]
        assert pane.target is None
    run.close()


async def test_a_task_keeps_the_cursor_while_samples_come(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record(f"{group}-0", turns=()) for group in "abcd"])
    run = watched(tmp_path / "run", tmp_path)
    await run.open()
    pane = TasksPane()
    app, screen = app_for(run, pane, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("S", "j", "j")
        assert pane.table.line is not None and pane.table.line.name == "b"
        await write(tmp_path / "run", [record("e-0", turns=())], resume=True)
        screen.tick()
        await pilot.pause()
        assert (pane.table.line.name, pane.table.count, pane.table.cursor) == ("b", 5, 3)
    run.close()


def asked(words: str) -> Turn:
    """A turn that begins with these words of the user."""
    first = conversation(1)[0]
    return first.model_copy(update={"messages": (Message(role="user", content=words),)})


async def test_prompts_take_the_width_that_is_left_and_only_those_in_view_are_read(tmp_path: Path) -> None:
    told = [record(f"{number:02}-0", turns=(asked(f"Add {number} and\n\x1b[7m{number}"),)) for number in range(60)]
    await write(tmp_path / "run", told)
    run = watched(tmp_path / "run", tmp_path)
    await run.open()
    pane = TasksPane()
    app, screen = app_for(run, pane, tmp_path)
    async with app.run_test(size=(140, 20)) as pilot:
        await settled(pilot)
        screen.tick()
        await settled(pilot)
        header = lines(pane.table)[0]
        assert header.split()[-1] == "prompt" and "task▲" not in header
        assert lines(pane.table)[1].rstrip().endswith("Add 0 and 0") and len(pane.table.prompts) < 30
        await pilot.press("G")
        await settled(pilot)
        assert lines(pane.table)[-1].rstrip().endswith("Add 59 and 59") and len(pane.table.prompts) < 40
        await pilot.resize_terminal(90, 20)
        await settled(pilot)
        assert "prompt" not in lines(pane.table)[0]
    run.close()


async def test_without_any_prompt_there_is_no_column_of_them(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record(f"{group}-0", turns=()) for group in "abcdefghij"])
    run = watched(tmp_path / "run", tmp_path)
    await run.open()
    pane = TasksPane()
    app, screen = app_for(run, pane, tmp_path)
    async with app.run_test(size=(140, 20)) as pilot:
        await settled(pilot)
        screen.tick()
        await settled(pilot)
        assert "prompt" not in lines(pane.table)[0]
    run.close()
