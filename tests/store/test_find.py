"""Finding runs: every run below a folder, the broken ones named as such."""

from pathlib import Path

from rollouthub.store import BrokenRun, RunInfo, find_runs
from tests.store.records import record, write


async def test_runs_are_found_oldest_first_and_broken_ones_are_reported(tmp_path: Path) -> None:
    await write(tmp_path / "b" / "first", [record("a-0")])
    await write(tmp_path / "a", [])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.db").write_bytes(b"nothing of the kind" * 100)
    (tmp_path / "unrelated").mkdir()

    first, second, broken = find_runs(tmp_path)

    assert isinstance(first, RunInfo)
    assert isinstance(second, RunInfo)
    assert [first.directory, second.directory] == [tmp_path / "b" / "first", tmp_path / "a"]
    assert isinstance(broken, BrokenRun)
    assert broken.directory == tmp_path / "broken"
    assert "no database" in broken.problem


def test_a_folder_without_runs_has_none(tmp_path: Path) -> None:
    assert find_runs(tmp_path) == []
    assert find_runs(tmp_path / "missing") == []
