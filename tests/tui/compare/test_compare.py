"""Two runs compared on a screen: what it says of them, in which order tasks come, and where it leads."""

from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from rollouthub import Outcome, Rollout, Score
from rollouthub.rollout import TaskRef
from rollouthub_tui.screens.compare import CompareScreen
from rollouthub_tui.widgets.compare.task_table import TasksTable
from tests.store.records import record, write
from tests.tui.led import led, lines, settle, shown, told


def played(number: int, sample: int, reward: float | None, name: str = "test", seed: int = 0) -> Rollout:
    """A rollout of a task; without a reward the agent failed."""
    task = TaskRef(split="test", id=f"{name}/{number}", digest="sha256:0")
    if reward is None:
        return record(f"g{number}-{sample}", outcome=Outcome.AGENT_FAILED, task=task, seed=seed)
    score = Score(reward=reward, passed=reward > 0.5)
    return record(f"g{number}-{sample}", task=task, score=score, seed=seed)


async def two_runs(folder: Path) -> tuple[Path, Path]:
    """Six samples each of a task that is lost, one won, one that stays, and one that nobody scored in the second."""
    first = {0: [1.0] * 6, 1: [0.25] * 6, 2: [1.0] * 6, 3: [1.0] * 6, 9: [1.0]}
    second = {0: [k * 0.01 for k in range(6)], 1: [0.25, *[0.5] * 5], 2: [1.0] * 6, 3: [None] * 6}
    await write(folder / "good", [played(task, k, reward) for task in first for k, reward in enumerate(first[task])])
    await write(
        folder / "bad", [played(task, k, reward, seed=3) for task in second for k, reward in enumerate(second[task])]
    )
    return folder / "good", folder / "bad"


def tasks(pilot: Pilot[None]) -> list[str]:
    """The tasks in their order, with what happened to them."""
    table = pilot.app.screen.query_one(TasksTable)
    top = table.region.y + 1
    return [" ".join(line.replace("›", " ").split()) for line in lines(pilot)[top : top + table.count]]


async def test_regressions_come_first_and_only_what_is_more_than_chance_is_called_so(tmp_path: Path) -> None:
    first, second = await two_runs(tmp_path)
    async with led(CompareScreen(first, second)) as (pilot, where):
        assert tasks(pilot) == [
            "test/0 1.000 0.025 -0.975 6 6 0.004 ▼ worse",
            "test/2 1.000 1.000 +0.000 6 6 – = same",
            "test/1 0.250 0.458 +0.208 6 6 0.015 ▲ better",
            "test/3 1.000 – – 6 0/6 – ? not scored",
        ]
        said = told(pilot, "headline")
        assert "A good  24/24 scored" in said
        assert "B bad  18/24 scored" in said
        assert "B − A -0.256" in said
        assert "3 tasks paired: this may be chance" in said
        assert (
            "4 tasks in common; 1 task of A left out; B was played with other seeds of the environment than A" in said
        )
        await pilot.press("enter")
        await settle(pilot)
        assert where.pop() == ("rollout", second, "g0-0", 0)
        await pilot.press("G", "less_than_sign", "enter")
        await settle(pilot)
        assert where.pop() == ("rollout", first, "g3-0", 0)
        assert "(6 agent failures)" in told(pilot, "detail")
        await pilot.press("S")
        assert [line.split()[0] for line in tasks(pilot)] == ["test/1", "test/2", "test/0", "test/3"]
        await pilot.press("s", "s")
        assert [line.split()[0] for line in tasks(pilot)] == ["test/0", "test/1", "test/2", "test/3"]
        await pilot.press("tab")
        await settle(pilot)
        assert tasks(pilot)[0] == "test/0 0.025 1.000 +0.975 6 6 0.004 ▲ better"
        assert "A was played" not in told(pilot, "headline")


async def test_runs_that_cannot_be_compared_say_why_and_stay_calm(tmp_path: Path) -> None:
    await write(tmp_path / "one", [played(0, 0, 1.0)])
    await write(tmp_path / "other", [played(0, 0, 1.0, name="else")])
    async with led(CompareScreen(tmp_path / "one", tmp_path / "other")) as (pilot, where):
        assert "These runs cannot be compared" in shown(pilot)
        assert "0 tasks in common" in told(pilot, "message").replace("\n", " ")
        await pilot.press("enter", "s", "tab", "j")
        assert where == []
    async with led(CompareScreen(tmp_path / "one", tmp_path / "none")) as (pilot, _):
        assert "there is no run directory" in told(pilot, "message")


async def test_rude_tasks_are_plain_and_wide_screens_say_more(tmp_path: Path) -> None:
    rude = "\x1b]0;owned\x07[red]x[/red]\u202ey"
    await write(tmp_path / "one", [played(0, 0, 1.0, name=rude)])
    await write(tmp_path / "two", [played(0, 0, None, name=rude)])
    async with led(CompareScreen(tmp_path / "one", tmp_path / "two"), size=(200, 40)) as (pilot, _):
        said: Any = shown(pilot)
        assert "[red]x[/red]y/0" in said
        assert "B: 1 agent failure" in said
        assert not {"\x1b", "\x07", "\u202e"} & set(said)
