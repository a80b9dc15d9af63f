"""The contract of views: whatever the entry points name, and one that a stranger wrote."""

from pathlib import Path

import pytest

from rollouthub import Outcome
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.entry_points import VIEWS
from rollouthub.statistics.amounts import number
from rollouthub.text import one_line
from rollouthub.views.report.report_facts import Report
from rollouthub.views.report.report_view import ReportView, find_view
from rollouthub.views.report.write import format_of, is_report, write_report
from tests.plugins.stranger import names_of, register
from tests.views.report.played import broken, hostile, make_run, played, report_of

STRANGER = "acme/lines"


class Lines:
    """A line for each run, from the protocol alone."""

    endings = (".lines",)

    def render(self, report: Report) -> str:
        return "".join(f"{one_line(run.name)} {number(run.figures.mean_reward.value)}\n" for run in report.runs)


@pytest.fixture(params=names_of(VIEWS, STRANGER))
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of each view."""
    if request.param == STRANGER:
        register(tmp_path / "site", monkeypatch, VIEWS, STRANGER, f"{__name__}:Lines")
    return request.param


def test_a_file_s_ending_chooses_it(name: str, tmp_path: Path) -> None:
    view = find_view(name)
    assert isinstance(view, ReportView)
    assert view.endings
    for ending in view.endings:
        assert ending == ending.lower()
        assert format_of(Path(f"report{ending.upper()}"), None) == name
        assert is_report(Path(f"report{ending}"))
    assert format_of(Path("report.elsewhere"), name) == name


async def test_it_says_the_name_and_the_mean_of_a_run_and_always_the_same(name: str, tmp_path: Path) -> None:
    await make_run(tmp_path / "sums", [played(task, 0, reward=reward) for task, reward in enumerate((0.0, 0.25, 0.5))])
    report = report_of(tmp_path / "sums")
    text = find_view(name).render(report)
    assert "sums" in text
    assert "0.25" in text
    assert find_view(name).render(report) == text
    write_report(report, tmp_path / "made", name)
    assert (tmp_path / "made").read_text() == text


async def test_a_run_without_a_score_and_one_of_nothing_have_a_report(name: str, tmp_path: Path) -> None:
    await make_run(tmp_path / "unscored", [broken(0, Outcome.AGENT_FAILED)])
    await make_run(tmp_path / "empty", [])
    for run in ("unscored", "empty"):
        assert run in find_view(name).render(report_of(tmp_path / run))


async def test_what_agents_said_drives_no_terminal(name: str, tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [hostile(0, "sha256:" + "0" * 64)])
    text = find_view(name).render(report_of(tmp_path / "run"))
    assert not {*"\x00\x07\x08\x1b\x9b\u202e\u2066"} & {*text}


def test_a_wrong_name_is_met_with_the_right_one(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{name}'"):
        find_view(f"{name}s")


class Blank:
    """It renders nothing."""

    endings = (".blank",)


def test_what_is_no_view_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path, monkeypatch, VIEWS, "acme/blank", f"{__name__}:Blank")
    with pytest.raises(ConfigError, match=r"'acme/blank' of distribution .* does not follow .*ReportView"):
        find_view("acme/blank")
