"""`hub report`, and `hub compare` as a report: files to share, made from runs that are there."""

import json
from pathlib import Path

from tests.cli.conftest import Hub


def test_a_report_of_a_run_is_one_file_that_names_what_made_the_numbers(hub: Hub, tmp_path: Path) -> None:
    assert hub("run", "arithmetic", "-m", "mock/solver", "--limit", "3", "--seed", "1", "-q", "-o", "sums").code == 0
    done = hub("report", "sums", "-o", "report.html")
    assert (done.code, done.out) == (0, "")
    page = (tmp_path / "report.html").read_text()
    assert "mock/solver on arithmetic" in page
    assert str(tmp_path) not in page
    found = hub("report", "sums", "--format", "json").json
    (environment,) = found["runs"][0]["identity"]["environments"]
    resolved = json.loads((tmp_path / "sums" / "resolved.json").read_text())
    assert environment["code"] == resolved["environments"][0]["digest"]
    assert f"<code>{environment['code']}</code>" in page
    assert "hub run --config sums/resolved.json --lock sums/hub.lock" in hub("report", "sums").out


def test_a_comparison_is_written_beside_its_tables(hub: Hub, tmp_path: Path) -> None:
    for name, model in (("a", "mock/solver"), ("b", "mock/solver?accuracy=0.2")):
        options = ("--limit", "12", "--seed", "1", "-q", "-o", name)
        assert hub("run", "arithmetic", "-m", model, *options).code == 0
    done = hub("compare", "a", "b", "-o", "compared.html")
    assert done.code == 0, done.err
    assert "paired by task" in done.out
    page = (tmp_path / "compared.html").read_text()
    assert "exactly the same tasks" in page
    assert "Differences of mean reward" in page
    assert hub("compare", "a", "b", "-o", "compared.md").code == 0
    assert (tmp_path / "compared.md").read_text().startswith("## Differences")


def test_wrong_runs_and_formats_are_refused(hub: Hub, tmp_path: Path) -> None:
    assert "there is no run 'nowhere'" in hub("report", "nowhere").refused()
    (tmp_path / "hollow").mkdir()
    assert "holds no run" in hub("report", "hollow", "-o", "r.html").refused()
    assert "names no format" in hub("report", "hollow", "-o", "r.pdf").refused()
    assert "did you mean" in hub("report", "hollow", "--format", "jsn").refused()
    assert "there is no folder" in hub("report", "hollow", "-o", "no/r.html").refused()
    assert "r.csv is no report" in hub("compare", "hollow", "hollow", "-o", "r.csv").refused()
    assert not (tmp_path / "r.html").exists()


def test_where_a_comparison_cannot_be_written_is_said_before_anything_is_played(hub: Hub, tmp_path: Path) -> None:
    played = ("compare", "arithmetic", "-m", "mock/a", "-m", "mock/b")
    assert "there is no folder" in hub(*played, "-o", "no/r.html").refused()
    assert list(tmp_path.iterdir()) == []
