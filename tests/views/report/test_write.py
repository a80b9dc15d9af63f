"""Formats: chosen by name or by the file's ending, whole or not at all."""

import json
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.views.report.report_facts import Report
from rollouthub.views.report.report_schema import schema_text
from rollouthub.views.report.write import format_of, is_report, render, write_report
from tests.store.records import names_in
from tests.views.report.played import make_run, played, report_of

SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "report.schema.json"


def test_the_schema_that_is_kept_is_the_one_that_is_written() -> None:
    assert SCHEMA.read_text() == schema_text(), "write it anew: python -m rollouthub.views.report.report_schema " + str(
        SCHEMA
    )


def test_the_ending_names_the_format_unless_one_is_given() -> None:
    assert [format_of(Path(name), None) for name in ("a.html", "b.MD", "c.json")] == ["html", "md", "json"]
    assert format_of(Path("a.html"), "json") == "json"
    assert format_of(None, None) == "md"
    with pytest.raises(ConfigError, match="add --format"):
        format_of(Path("report.pdf"), None)
    with pytest.raises(UnknownNameError, match="report format"):
        format_of(None, "htm")


def test_a_folder_of_runs_is_no_report(tmp_path: Path) -> None:
    assert is_report(Path("compared.html"))
    assert not is_report(Path("runs/compared"))
    (tmp_path / "odd.html").mkdir()
    assert not is_report(tmp_path / "odd.html")


async def test_json_reads_back_as_the_same_facts(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [played(0, 0)])
    report = report_of(tmp_path / "run")
    text = render(report, "json")
    assert Report.model_validate_json(text) == report
    assert json.loads(text)["report_version"] == 2


async def test_a_file_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    await make_run(tmp_path / "run", [played(0, 0)])
    report = report_of(tmp_path / "run")
    with pytest.raises(ConfigError, match="there is no folder"):
        write_report(report, tmp_path / "nowhere" / "r.html", "html")
    assert names_in(tmp_path) == ["run"]
