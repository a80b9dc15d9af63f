"""What a RUN argument means where several things have its name."""

from pathlib import Path

import pytest

from rollouthub.cli.find_run import RUNS, ForeignPath, find_stored
from tests.store.records import record, write


async def test_a_file_of_the_working_folder_is_not_the_last_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await write(tmp_path / "runs" / "sums", [record("g1-0")])
    for name in ("last", "sums"):
        (tmp_path / name).write_text('{"messages": []}\n')
        assert find_stored(name, RUNS) == RUNS / "sums"
    assert find_stored("./last", RUNS) == ForeignPath(Path("last"))
