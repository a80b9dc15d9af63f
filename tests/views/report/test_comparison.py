"""The report of a comparison: an axis of round numbers, runs × environments, changed tasks, both conversations."""

from pathlib import Path

import pytest

from rollouthub.analysis.compare.compared_run import read_compared
from rollouthub.analysis.compare.comparison import compare_runs
from rollouthub.views.report.difference_charts import ForestRow, forest_plot, round_ticks
from rollouthub.views.report.gather import ReportedRun, gather
from rollouthub.views.report.html_page import html_report
from rollouthub.views.report.markdown import markdown_report
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.report.report_facts import Report
from tests.views.report.played import make_run, played


async def compared(folder: Path) -> Report:
    """The report of three runs: the second loses task 0 and wins task 2, the third equals the first."""
    rewards = {"base": (1.0, 1.0, 0.0), "other": (0.0, 1.0, 1.0), "same": (1.0, 1.0, 0.0)}
    for name, given in rewards.items():
        records = [played(n, s, reward=reward) for n, reward in enumerate(given) for s in range(6)]
        await make_run(folder / name, records)
    found = compare_runs([read_compared(folder / name, name) for name in rewards], in_detail=True)
    return gather([ReportedRun(folder / name, name) for name in rewards], Plainness(str), comparison=found)


async def test_the_facts_have_the_matrix_the_changes_and_both_conversations(tmp_path: Path) -> None:
    found = (await compared(tmp_path)).comparison
    assert found is not None
    assert found.matrix is not None
    assert [row.label for row in found.matrix.rows] == ["base", "other", "same"]
    other, same = found.changes
    assert (other.counts, same.counts) == ({"worse": 1, "better": 1, "same": 1}, {"same": 3})
    (worse,) = other.worse
    first, second = worse.transcripts
    assert first is not None
    assert second is not None
    assert (worse.task, first.task, first.reward, second.reward) == ("test/0", "test/0", 1.0, 0.0)
    assert [task.transcripts for task in other.better] == [(None, None)]


async def test_the_page_and_the_markdown_list_what_got_worse(tmp_path: Path) -> None:
    report = await compared(tmp_path)
    page = html_report(report)
    assert "Runs × environments" in page
    assert "base, best sample" in page
    assert "other, worst sample" in page
    assert 'aria-label="from 1.000 to 0.000"' in page
    text = markdown_report(report)
    assert "| `test/0` | 1.000 of 6 | 0.000 of 6 | -1.000 |" in text


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (-0.384, 0.0, [-0.4, -0.3, -0.2, -0.1, 0.0]),
        (-0.03, 0.07, [-0.04, -0.02, 0.0, 0.02, 0.04, 0.06, 0.08]),
        (0.0, 12.0, [0.0, 2.5, 5.0, 7.5, 10.0, 12.5]),
    ],
)
def test_ticks_are_round_and_hold_all_values(low: float, high: float, ticks: list[float]) -> None:
    assert round_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize("far", [0.0, 1e-12, 0.00031, 0.384, 7.0, 123_456.0])
def test_no_two_ticks_are_written_alike(far: float) -> None:
    drawn = forest_plot("d", [ForestRow("a", far / 2, -far, far, "unclear")])
    words = [part.split(">")[1] for part in drawn.split("</text>")[:-1] if "middle" in part]
    ticks = [part.rsplit(">", 1)[1] for part in drawn.split("</text>")[:-1] if "text-anchor" in part]
    assert len(words) == len(set(ticks)) >= 2
