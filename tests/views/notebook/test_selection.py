"""Figures and charts of a run and of what a filter picks of it, against formulas of this file."""

import gc
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

import rollouthub
from rollouthub import Score
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.live.follow import FilterError
from rollouthub.rollout import EnvironmentRef, TaskRef
from rollouthub.views.notebook import Run
from tests.store.records import record, write

pytest.importorskip("pyarrow")

PASSES = {"a": (1, 0, 0, 0), "b": (1, 1, 0, 0), "c": (0, 0, 0, 0)}
"""Task → whether each of its samples passed."""


@pytest.fixture
async def run(tmp_path: Path) -> Run:
    kept = [
        record(
            f"{task}-{sample}",
            environment=EnvironmentRef(name="letters" if task == "c" else "sums", version="1", digest="sha256:0"),
            task=TaskRef(split="test", id=task, digest="sha256:0"),
            score=Score(reward=float(passed), passed=bool(passed)),
        )
        for task, samples in PASSES.items()
        for sample, passed in enumerate(samples)
    ]
    await write(tmp_path / "run", kept)
    return rollouthub.open_run(tmp_path / "run")


def pass_at(k: int, tasks: str) -> float:
    """1 - C(n - c, k) / C(n, k), averaged over tasks."""
    values = [1 - math.comb(4 - sum(PASSES[task]), k) / math.comb(4, k) for task in tasks]
    return sum(values) / len(values)


def wilson(share: float, trials: int) -> tuple[float, float]:
    """Wilson's interval at 95 %."""
    z = 1.959963984540054
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    margin = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return middle - margin, middle + margin


async def test_pass_at_k_is_a_frame_with_intervals(run: Run) -> None:
    rows = run.pass_at_k().to_pylist()
    assert [row["k"] for row in rows] == [1, 2, 4]
    assert [row["value"] for row in rows] == pytest.approx([pass_at(k, "abc") for k in (1, 2, 4)])
    assert all(row["low"] < row["value"] < row["high"] and row["tasks"] == 3 for row in rows)
    assert [row["k"] for row in run.pass_at_k([3]).to_pylist()] == [3]


async def test_what_is_filtered_has_its_own_figures(run: Run) -> None:
    sums = run.filter('environment == "sums"')
    assert (sums.mean_reward, sums.pass_rate) == (pytest.approx(3 / 8), pytest.approx(3 / 8))
    assert [row["value"] for row in sums.pass_at_k([2]).to_pylist()] == pytest.approx([pass_at(2, "ab")])
    first = sums.filter("sample == 0")
    (row,) = first.pass_at_k().to_pylist()
    # All of two tasks passed once: each counts as a trial.
    assert (row["value"], row["low"], row["high"]) == (1.0, pytest.approx(wilson(1.0, 2)[0]), 1.0)
    assert sorted(each["task_id"] for each in first.rollouts(columns=["task_id"]).to_pylist()) == ["a", "b"]
    assert len(sums.rollouts("reward == 0")) == 5
    assert len(sums.turns("sample == 0", columns=["turn"])) == 4
    with pytest.raises(FilterError, match="did you mean 'reward'"):
        sums.filter("rewrd < 1")


async def test_a_filter_outlives_the_name_of_its_run(tmp_path: Path, run: Run) -> None:
    found = rollouthub.open_run(run.directory).filter("reward == 1")
    gc.collect()
    assert len(found.tool_calls()) == 3


async def test_a_chart_is_svg_that_needs_nothing_else(run: Run) -> None:
    chart = run.plot()
    root = ElementTree.fromstring(chart.svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert f"pass@k: {pass_at(1, 'abc'):.3f} at k=1" in (root[0].text or "")
    assert "http" not in chart.svg.replace("http://www.w3.org/2000/svg", "")
    page: Any = chart._repr_html_()  # pyright: ignore[reportPrivateUsage]  # the notebook's name for it
    assert page.count("<svg") == 1
    assert "script" not in page
    assert "9 at 0, 3 at 1" in run.plot("rewards").svg
    assert "5 at 0, 3 at 1" in run.filter('environment == "sums"').plot("rewards").svg
    with pytest.raises(ConfigError, match="nothing to draw"):
        run.filter("reward > 2").plot()
    with pytest.raises(UnknownNameError, match="did you mean 'rewards'"):
        run.plot("reward")  # pyright: ignore[reportArgumentType]


async def test_the_page_of_a_run_writes_the_pass_rate_as_elsewhere(run: Run) -> None:
    page = run._repr_html_()  # pyright: ignore[reportPrivateUsage]  # the notebook's name for it
    assert "25.0% (" in page
    low, high = page.split("25.0% (")[1].split(")")[0].split("–")
    assert float(low.rstrip("%")) < 25 < float(high.rstrip("%"))
    part = run.filter('environment == "sums"')._repr_html_()  # pyright: ignore[reportPrivateUsage]  # the same
    assert "37.5% (" in part
