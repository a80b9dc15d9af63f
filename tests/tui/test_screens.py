"""Every screen as a picture: in dark and light, at 80×24 and 200×60."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from rollouthub_tui.dialogs.questions import AskScreen
from tests.tui.made import MIDWAY, playing_run
from tests.tui.snapshots import Album
from tests.tui.walking import Walker, app_of, go, look, run_of, settled, walking

RUNS = Path("runs")
GOOD = RUNS / "good"


async def test_the_runs_and_their_help_are_drawn_as_before(at_home: Path) -> None:
    with Album() as album:
        async with walking(at_home, roots=(RUNS,)) as pilot:
            await go(pilot, to="good")
            await look(pilot, album, "runs")
            await go(pilot, "question_mark")
            await look(pilot, album, "help")


async def test_two_runs_compared_are_drawn_as_before(at_home: Path) -> None:
    with Album() as album:
        async with walking(at_home, roots=(RUNS,)) as pilot:
            await go(pilot, to="worse")
            await go(pilot, "space", "j", "c", to="arithmetic")
            await look(pilot, album, "compare")


async def test_a_run_is_drawn_as_before(at_home: Path) -> None:
    with Album() as album:
        async with walking(at_home, run=GOOD) as pilot:
            await look(pilot, album, "run-overview")
            for key, name in (("2", "rollouts"), ("3", "tasks"), ("4", "machines"), ("5", "breakdown")):
                await go(pilot, key)
                await look(pilot, album, f"run-{name}", wide={"rollouts": "ended ·", "tasks": "How much"}.get(name, ""))


async def test_a_run_that_plays_is_drawn_as_before(at_home: Path) -> None:
    with Album() as album:
        async with playing_run(at_home / "playing"), walking(at_home, run=at_home / "playing", now=MIDWAY) as pilot:
            await look(pilot, album, "playing-overview")
            await go(pilot, "2")
            await look(pilot, album, "playing-rollouts", wide="in flight: ")


async def test_a_rollout_is_drawn_as_before(at_home: Path) -> None:
    with Album() as album:
        async with opened(at_home, "code-00-1") as pilot:
            for key, name in zip("12345", ("conversation", "score", "tokens", "timings", "record"), strict=True):
                await go(pilot, key)
                await look(pilot, album, f"rollout-{name}")


async def test_a_rollout_with_seats_and_judges_and_one_that_broke_are_drawn_as_before(at_home: Path) -> None:
    with Album() as album:
        async with opened(at_home, "customer_service-01-2") as pilot:
            album.look(pilot.app, "seats-conversation")
            await go(pilot, "2")
            album.look(pilot.app, "seats-score")
        async with opened(at_home, "code-01-3") as pilot:
            album.look(pilot.app, "fault-conversation")
            await go(pilot, "2")
            album.look(pilot.app, "fault-score")


async def test_two_rollouts_side_by_side_are_drawn_as_before(at_home: Path) -> None:
    with Album() as album:
        async with walking(at_home, run=GOOD) as pilot:
            columns = run_of(pilot).feed.columns
            first, second = (columns.texts["rollout_id"].index(f"arithmetic-03-{sample}") for sample in (0, 1))
            app_of(pilot).open_pair(run_of(pilot), first, second)
            await settled(pilot)
            await look(pilot, album, "pair")


async def test_a_question_is_drawn_as_before(at_home: Path) -> None:
    with Album() as album:
        async with walking(at_home, run=GOOD) as pilot:
            await go(pilot, "2")
            app_of(pilot).push_screen(AskScreen("End code-00-1 now, unscored?", "Its record stays.", yes="Cancel it"))
            await settled(pilot)
            await look(pilot, album, "asking", wide="ended ·")


@asynccontextmanager
async def opened(folder: Path, rollout_id: str) -> AsyncGenerator[Walker]:
    """A rollout of the good run."""
    async with walking(folder, run=GOOD) as pilot:
        app_of(pilot).open_rollout(run_of(pilot), rollout_id, 0)
        await settled(pilot)
        yield pilot
