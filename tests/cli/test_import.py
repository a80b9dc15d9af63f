"""`hub import`: what it lists, what it would take, and what it reports of items that could not be written."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue
from typer.testing import CliRunner

from rollouthub.cli.main import app
from rollouthub.plugins.entry_points import plugins
from rollouthub.plugins.importers import (
    COMMANDS,
    IMPORTERS,
    Candidate,
    ForeignFormat,
    Identity,
    ImportSource,
    Note,
    Written,
    silent,
)
from tests.plugins.stranger import register

ITEMS = ("clubs", "hearts", "jokers")
WHY = "no wheel of it can be had"


class Decks:
    """A stranger's format: one item is refused from the beginning, and one cannot be written in the end."""

    environment = None
    about = ForeignFormat(summary="Decks of cards", item="deck", sources={"folder": "decks"}, unpromised=("luck",))

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        return [Candidate(id=name, reasons=("it is no suit",) if name == "jokers" else ()) for name in ITEMS]

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = silent,
    ) -> Sequence[Path]:
        out.mkdir()
        left_out = tuple(Candidate(id=name, reasons=(WHY,)) for name in chosen if name == "hearts")
        return Written((out / "clubs.py",), left_out)


@pytest.fixture(autouse=True)
def decks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stranger's format is installed."""
    register(tmp_path / "site", monkeypatch, IMPORTERS, "acme/decks", f"{__name__}:Decks")


def test_what_could_not_be_written_is_refused_with_its_reason_and_the_exit_code_says_so(tmp_path: Path) -> None:
    asked = ["import", "acme/decks", str(tmp_path), "clubs", "hearts"]
    done = CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "json"), "--json"])
    told = json.loads(done.stdout)
    assert (done.exit_code, told["runs"], told["refused"]) == (1, 1, 1)
    assert told["written"] == [str(tmp_path / "json" / "clubs.py")]
    assert {row["id"]: row["reasons"] for row in told["tasks"]} == {"clubs": [], "hearts": [WHY]}
    done = CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "shown")])
    assert done.exit_code == 1
    assert "1 of 2 can be run" in done.stdout
    assert f"refused, 1: {WHY}" in done.stdout
    assert "hub run" in done.stdout


def test_a_dry_run_says_what_would_be_taken_and_writes_nothing(tmp_path: Path) -> None:
    asked = ["import", "acme/decks", str(tmp_path), "-o", str(tmp_path / "out"), "--dry-run"]
    done = CliRunner().invoke(app, [*asked, "--json"])
    told = json.loads(done.stdout)
    assert (done.exit_code, told["runs"], told["refused"], told["written"]) == (1, 2, 1, [])
    assert told["commands"] == [f"hub import acme/decks {tmp_path} -o {tmp_path / 'out'}"]
    assert told["unpromised"] == ["luck"]
    done = CliRunner().invoke(app, asked)
    assert "2 of 3 can be run" in done.stdout
    assert "refused, 1: it is no suit" in done.stdout
    assert not (tmp_path / "out").exists()


def test_the_list_names_every_format_with_what_it_takes() -> None:
    done = CliRunner().invoke(app, ["import", "--list", "--json"])
    found = {each["name"]: each for each in json.loads(done.stdout)["formats"]}
    assert set(found) == {*plugins(IMPORTERS), *plugins(COMMANDS)}
    assert found["acme/decks"]["sources"] == {"folder": "decks"}
    assert all(each["summary"] for each in found.values())
    shown = CliRunner().invoke(app, ["import", "--list"])
    assert (done.exit_code, shown.exit_code) == (0, 0)
    assert all(name in shown.stdout for name in found)
