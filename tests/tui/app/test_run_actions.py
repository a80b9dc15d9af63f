"""Acting on a run that plays, by keys; and being told why not."""

from pathlib import Path

import anyio
import pytest
from textual.widgets import Input, Label

from rollouthub import Outcome
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub_tui.dialogs.questions import AskScreen, TextScreen
from tests.live.control.conftest import Guest, Watch, Watched, until
from tests.store.records import record, write
from tests.tui.stage import Stage, standing
from tests.tui.walking import settled

from .conftest import Plain, told


async def attached(run: Watched) -> WatchedRun:
    """The run, found by its socket."""
    watched = WatchedRun(run.directory, run.environ)
    with anyio.fail_after(60):
        while not (watched.is_open and watched.is_steered and len(watched.feed.live) == len(run.ids())):
            await watched.open()
            await watched.look_in()
            await anyio.lowlevel.checkpoint()
    return watched


def staged(watched: WatchedRun, target: Target | None, home: Path) -> tuple[Stage, Plain]:
    """An app that shows a plain screen of the run."""
    screen = Plain(watched, target)
    return Stage(lambda: screen, environ={"HOME": str(home), "XDG_STATE_HOME": str(home / "state")}), screen


async def test_a_rollout_is_cancelled_after_a_question_and_the_run_is_paused_resized_and_resumed(
    watch: Watch, tmp_path: Path
) -> None:
    guest = Guest()
    async with watch(guest, limit=6) as run:
        await until(lambda: guest.waiting == 3)
        watched = await attached(run)
        victim = run.ids()[1]
        app, screen = staged(watched, Target(victim, 0, None), tmp_path)
        async with app.run_test() as pilot:
            await pilot.press("x")
            assert isinstance(app.screen, AskScreen)
            await pilot.press("enter")  # says no
            await settled(pilot)
            assert victim in run.live.attempts
            await pilot.press("x", "y")
            await until(lambda: victim not in run.live.attempts)

            await pilot.press("p")
            await until(lambda: run.live.state == "paused")
            await settled(pilot)
            assert watched.view is not None and watched.view.status == "paused"
            await pilot.press("p")
            await until(lambda: run.live.state == "running")

            await settled(pilot)
            await pilot.press("plus")
            await until(lambda: run.live.concurrency == 4)
            await settled(pilot)
            await pilot.press("equals_sign")
            await pilot.press("backspace", "0", "enter")
            assert isinstance(app.screen, TextScreen), "0 is no number of episodes"
            await pilot.press("backspace", "2", "enter")
            await until(lambda: run.live.concurrency == 2)
            await settled(pilot)
            assert len(told(app)) == 5
            await until(lambda: watched.refresh() or victim not in {live.rollout_id for live in watched.feed.live})
            assert screen.why_not("cancel") == f"{victim} is not in flight any more"
        watched.close()
    assert [record.outcome for record in run.records()[victim]] == [Outcome.CANCELLED]


async def test_the_agent_is_told_something_and_the_hubs_refusals_are_shown(watch: Watch, tmp_path: Path) -> None:
    guest = Guest()
    async with watch(guest) as run:
        await until(lambda: guest.waiting == 3)
        watched = await attached(run)
        one = run.ids()[0]
        app, screen = staged(watched, Target(one, 0, None), tmp_path)
        async with app.run_test() as pilot:
            await pilot.press("m", "enter")
            assert isinstance(app.screen, TextScreen), "nothing is no message"
            app.screen.query_one(Input).value = "[b]look[/b] again\x1b[31m"
            await pilot.press("enter")
            await settled(pilot)
            (answer,) = told(app)
            assert "\x1b" not in answer
            app.clear_notifications()
            await pilot.press("exclamation_mark")
            await settled(pilot)
            (answer,) = told(app)
            assert "sandbox" in answer
            screen.aim = Target("no-such-rollout", 0, None)
            app.clear_notifications()
            await pilot.press("x")
            assert told(app) == ["no-such-rollout is not in flight any more"]
            screen.aim = Target(one, 0, None)
            await pilot.press("i", "y")
            await until(lambda: one not in run.live.attempts)
        watched.close()


async def test_what_is_not_possible_is_greyed_and_says_why_when_its_key_is_pressed(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    await write(directory, [record("g1-0"), record("g1-1", outcome=Outcome.MODEL_FAILED)])
    watched = WatchedRun(directory, {"XDG_RUNTIME_DIR": str(tmp_path)}, standing)
    await watched.open()
    app, screen = staged(watched, Target("g1-0", 0, 0), tmp_path)
    async with app.run_test() as pilot:
        active = app.screen.active_bindings
        assert [active[key].enabled for key in ("x", "i", "m", "r", "p", "plus")] == [False] * 6
        assert [active[key].enabled for key in ("y", "R", "o")] == [True] * 3
        for key in ("x", "r", "p"):
            await pilot.press(key)
        assert told(app) == [
            "the run is over: nothing of it plays",
            "the run is over; `hub run --resume -o DIRECTORY` plays again what is unscored",
            "the run is over: nothing of it plays",
        ]
        app.clear_notifications()
        await pilot.press("y")
        assert app.clipboard == "g1-0"
        await pilot.press("o")
        await settled(pilot)
        assert told(app)[1:] == [f"nothing is kept of it but its record in {directory}"]
        screen.aim = None
        await pilot.press("y")
        assert app.clipboard == str(directory)
    watched.close()


@pytest.mark.parametrize("key", ["o", "exclamation_mark"])
async def test_a_run_that_is_not_read_yet_cannot_be_acted_on(tmp_path: Path, key: str) -> None:
    app, _ = staged(WatchedRun(tmp_path, {}, standing), Target("g1-0", 0, None), tmp_path)
    async with app.run_test() as pilot:
        await pilot.press(key)
        assert told(app) == ["the run is not read yet"]


async def test_marked_rollouts_are_cancelled_together_after_one_question(watch: Watch, tmp_path: Path) -> None:
    guest = Guest()
    async with watch(guest, limit=6) as run:
        await until(lambda: guest.waiting == 3)
        watched = await attached(run)
        first, second, third = run.ids()
        app, screen = staged(watched, Target(first, 0, None), tmp_path)
        screen.marked = [Target(second, 0, None), Target(third, 0, None), Target("gone", 0, None)]
        async with app.run_test() as pilot:
            await pilot.press("x")
            assert isinstance(app.screen, AskScreen)
            shown = [str(label.content) for label in app.screen.query(Label)]
            assert shown[0] == "End 2 rollouts now, unscored?"
            assert "1 of the 3 marked are not in flight" in shown[1]
            await pilot.press("y")
            await until(lambda: not {second, third} & set(run.live.attempts))
            await settled(pilot)
            assert told(app) == ["cancelled 2 rollouts"]
            assert first in run.live.attempts
            app.clear_notifications()
            await until(
                lambda: watched.refresh() or not {second, third} & {live.rollout_id for live in watched.feed.live}
            )
            await until(lambda: watched.refresh() or {second, third} <= set(watched.feed.columns.texts["rollout_id"]))
            places = {name: watched.feed.columns.texts["rollout_id"].index(name) for name in (second, third)}
            screen.marked = [Target(name, 0, place) for name, place in places.items()]
            await pilot.press("r", "y")
            await until(lambda: len(told(app)) == 1)
            assert told(app) == ["2 rollouts will be played again"]
        watched.close()
    assert all(Outcome.CANCELLED in [each.outcome for each in run.records()[name]] for name in (second, third))


async def test_a_rollout_that_ended_meanwhile_says_what_became_of_it(watch: Watch, tmp_path: Path) -> None:
    guest = Guest()
    async with watch(guest, limit=3) as run:
        await until(lambda: guest.waiting == 3)
        watched = await attached(run)
        one = run.ids()[0]
        app, _ = staged(watched, Target(one, 0, None), tmp_path)
        async with app.run_test() as pilot:
            await pilot.press("x")  # the question stays open while the rollout ends
            async with run.knock() as client:
                await client.interrupt(one)
            await until(lambda: one not in run.live.attempts)
            with anyio.fail_after(60):
                while not run.records().get(one):
                    await anyio.lowlevel.checkpoint()
            await pilot.press("y")
            await until(lambda: told(app))
            assert told(app)[0].startswith(f"{one} has ended meanwhile: ")
        watched.close()
