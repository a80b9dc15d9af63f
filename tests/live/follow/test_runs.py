"""The runs of this machine: where they are looked for, and in which order they come."""

import tempfile
from pathlib import Path

import pytest

from rollouthub.live.follow import RunFeed, RunsFeed
from rollouthub.store import BrokenRun, open_writer
from tests.live.control.conftest import Guest, Watch, until
from tests.store.records import RESOLVED, record, write


@pytest.fixture(autouse=True)
def nobody_elses_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hubs that somebody runs beside the tests are looked for in the user's temporary folder, too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


async def test_runs_of_several_folders_come_live_ones_first(tmp_path: Path) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path / "runtime")}
    runs = RunsFeed((tmp_path / "runs", tmp_path / "store"), environ)
    assert not await runs.refresh()
    async with open_writer(tmp_path / "store" / "live", resolved=RESOLVED, given="", resume=False) as writer:
        await write(tmp_path / "runs" / "ended", [record("a-0")])
        (tmp_path / "runs" / "broken").mkdir()
        (tmp_path / "runs" / "broken" / "run.db").write_bytes(b"no database" * 99)
        assert await runs.refresh()
        assert [(run.name, run.is_live) for run in runs.runs] == [("live", True), ("ended", False), ("broken", False)]
        assert isinstance(runs.runs[-1].info, BrokenRun)
        assert not await runs.refresh()
        await writer.add(record("a-0"))
    assert await runs.refresh()
    assert [run.is_live for run in runs.runs] == [False] * 3
    assert {run.name for run in runs.runs[:2]} == {"ended", "live"}


async def test_a_folder_that_is_named_twice_shows_its_runs_once(tmp_path: Path) -> None:
    await write(tmp_path / "runs" / "one", [record("a-0")])
    (tmp_path / "same").symlink_to(tmp_path / "runs")
    runs = RunsFeed((tmp_path / "runs", tmp_path / "same"), {"XDG_RUNTIME_DIR": str(tmp_path)})
    await runs.refresh()
    assert [run.name for run in runs.runs] == ["one"]


async def test_a_run_that_plays_anywhere_is_found_by_its_socket(watch: Watch) -> None:
    guest = Guest()
    async with watch(guest, limit=2) as playing:
        await until(lambda: guest.waiting == 2)
        runs = RunsFeed((), playing.environ)
        await runs.refresh()
        (run,) = runs.runs
        assert (run.directory, run.is_live, run.socket) == (playing.directory, True, playing.sockets[0])
        assert run.view is not None
        assert (run.view.in_flight, run.view.planned) == (2, 2)
        with RunFeed(run.directory) as feed:
            await until(lambda: feed.refresh() and len(feed.live) == 2)
            assert {state.rollout_id for state in feed.live} == set(playing.ids())
            assert feed.progress().in_flight == 2
            guest.gate.set()
            await playing.over.wait()
            feed.refresh()
            assert (feed.live, feed.info.status, feed.counts.scored) == ([], "finished", 2)
    await runs.refresh()
    assert runs.runs == []
