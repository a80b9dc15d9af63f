"""`hub bench view` measures what it says, on a real server."""

from pathlib import Path
from shutil import copytree

import pytest
from anyio import to_thread

from rollouthub.bench.large_runs import multiply, sampled_turns, write_long
from rollouthub.bench.real_runs import world
from rollouthub.cli.bench import view_bench
from tests.store.records import record, write


@pytest.fixture
async def runs(tmp_path: Path) -> Path:
    """The three runs that the benchmark asks for, small."""
    runs = tmp_path / "runs"
    await write(runs / "real", [record(f"g{n}-{s}") for n in range(4) for s in range(2)])
    copytree(runs / "real", runs / "large")
    multiply(runs / "large", 40)
    await write_long(runs / "wide", list(sampled_turns(5000)))
    return tmp_path


async def test_every_page_is_measured_and_each_figure_has_its_bar(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_bench, "_ROUNDS", 2)
    report = view_bench.ViewReport(rollouts=40)
    await to_thread.run_sync(view_bench.measure_pages, runs, world(runs), report)
    facts = report.as_json()
    assert facts["within"].keys() == facts["bars"].keys() == report.figures.keys()
    assert all(value > 0 for value in report.figures.values())
    assert facts["first"].keys() == {"run", "review", "board", "compare"}
    assert {"real: rollout", "large: rows", "wide: rollout", "board", "compare"} <= facts["pages"].keys()
    assert all(page["count"] == 2 for page in facts["pages"].values())
    assert "first_page_seconds" in facts["bars"]
