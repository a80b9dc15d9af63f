"""A run that plays in this process, followed and steered in words."""

from pathlib import Path

import anyio
import pytest

from rollouthub import Outcome
from rollouthub.errors import RunDirectoryError
from rollouthub_tui.text.live_events import Announcer
from tests.live.control.conftest import Guest, Watch, Watched, runtime, until, watch
from tests.tui.made import MIDWAY, playing_run
from tests.tui.text.conftest import Listener, is_plain, listening

__all__ = ["runtime", "watch"]


async def attached(run: Watched, listener: Listener) -> str:
    """What is said of the run, once its rollouts in flight are in its store."""
    said = await listener.types(f"open {run.directory}")
    with anyio.fail_after(10):
        while len(listener.session.here.feed.live) < len(run.ids()) or not listener.session.here.is_steered:
            await listener.session.look()
            await anyio.lowlevel.checkpoint()
    return said


async def test_a_rollout_is_cancelled_after_a_yes_and_typed_as_cancelled(watch: Watch, tmp_path: Path) -> None:
    guest = Guest()
    async with watch(guest, limit=6) as run, listening(tmp_path, environ=run.environ) as listener:
        await until(lambda: guest.waiting == 3)
        await attached(run, listener)
        person = listener.person
        said = (await listener.types("rollouts")).splitlines()
        assert "3 of them in flight" in said[0]
        victim = listener.session.meant("2").rollout_id
        person.answers = ["certainly not"]
        refused = await listener.types("cancel 2")
        assert refused.startswith("End ")
        assert f"({victim}) now, unscored? What it did stays in its record; retry, or " in refused
        assert refused.endswith("Nothing was done.\n")
        assert victim in run.live.attempts
        person.answers = ["yes"]
        await listener.types("cancel 2")
        await until(lambda: victim in run.records())
        assert [record.outcome for record in run.records()[victim]] == [Outcome.CANCELLED]
        assert "1: cancelled, " in await listener.types('errors outcome == "cancelled"')
        assert "is played again" in await listener.types("retry 1")
        await listener.types("concurrency 8")  # it comes after those that were not begun
        await until(lambda: victim in run.live.attempts)


async def test_a_run_is_paused_and_resized_and_the_hubs_refusals_are_told(watch: Watch, tmp_path: Path) -> None:
    guest = Guest()
    async with watch(guest, limit=6) as run, listening(tmp_path, environ=run.environ) as listener:
        await until(lambda: guest.waiting == 3)
        await attached(run, listener)
        await listener.types("pause")
        assert run.live.state == "paused"
        assert (await listener.types("summary")).startswith("Run run: paused, it starts nothing new")
        await listener.types("pause")
        assert run.live.state == "running"
        await listener.types("concurrency 2")
        assert run.live.concurrency == 2
        assert await listener.types("concurrency") == "2 at a time\n"
        await listener.types("rollouts")
        await listener.types("open 1")
        assert "agent guest asks no model of this run" in await listener.types("say this look again, please")
        assert "turn 1" in await listener.types("show")
        assert "in flight: " in await listener.types("machines")


async def test_what_ends_is_announced_with_its_reward_until_the_run_ends(watch: Watch, tmp_path: Path) -> None:
    guest = Guest()
    async with watch(guest) as run, listening(tmp_path, environ=run.environ) as listener:
        await until(lambda: guest.waiting == 3)
        await attached(run, listener)
        guest.gate.set()
        said = await listener.types("follow")
    lines = said.splitlines()
    assert "Enter, or Ctrl-C, goes back." in lines[0]
    assert len([line for line in lines if line.startswith("ended: task ") and ": reward " in line]) == 3
    assert lines[-1] == "Run run: finished, everything planned was played."


async def test_enter_goes_back_from_following(watch: Watch, tmp_path: Path) -> None:
    guest = Guest()
    async with watch(guest) as run, listening(tmp_path, environ=run.environ) as listener:
        await until(lambda: guest.waiting == 3)
        await attached(run, listener)
        listener.person.enter.set()
        assert (await listener.types("follow")).count("\n") == 1
        assert listener.session.ahead == ""


async def test_a_run_that_cannot_be_read_any_more_is_not_followed_forever(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "on"
    async with playing_run(run), listening(tmp_path / "runs", clock=lambda: MIDWAY) as listener:
        await listener.types("open on")
        (run / "run.db").rename(run / "elsewhere")
        announcer = Announcer(listener.session.here, listener.session.output, is_heard=True, patience_seconds=0)
        with pytest.raises(RunDirectoryError, match="holds no run"):
            await announcer.announce()
        (run / "elsewhere").rename(run / "run.db")


async def test_progress_is_told_every_so_often_and_many_endings_together(watch: Watch, tmp_path: Path) -> None:
    guest = Guest()
    async with watch(guest, limit=12, concurrency=12) as run, listening(tmp_path, environ=run.environ) as listener:
        await until(lambda: guest.waiting == 12)
        await attached(run, listener)
        announcer = Announcer(listener.session.here, listener.session.output, is_heard=True, progress_seconds=0.1)
        before = len(listener.heard)
        guest.gate.set()
        await run.over.wait()
        await announcer.announce()
        said = listener.heard[before:]
    assert "ended: 12 rollouts, 12 scored, mean reward " in said
    assert "progress: 12 of 12, 100.0%" in said
    assert is_plain(listener.heard)
