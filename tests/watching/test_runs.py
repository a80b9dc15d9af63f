"""The runs of this machine: where they are looked for, and in which order they come."""

from pathlib import Path

from envhub.store import BrokenRun, open_writer
from envhub.watching import RunsFeed
from tests.store.records import RESOLVED, record, write


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
    assert [(run.name, run.is_live) for run in runs.runs] == [("live", False), ("ended", False), ("broken", False)] or [
        run.name for run in runs.runs
    ] == ["ended", "live", "broken"]


async def test_a_folder_that_is_named_twice_shows_its_runs_once(tmp_path: Path) -> None:
    await write(tmp_path / "runs" / "one", [record("a-0")])
    (tmp_path / "same").symlink_to(tmp_path / "runs")
    runs = RunsFeed((tmp_path / "runs", tmp_path / "same"), {"XDG_RUNTIME_DIR": str(tmp_path)})
    await runs.refresh()
    assert [run.name for run in runs.runs] == ["one"]
