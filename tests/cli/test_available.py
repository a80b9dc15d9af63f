"""`hub list --available`: what can be fetched or imported with one command, found by name, format or licence."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub.plugins.importers import IMPORTERS, Candidate, ForeignFormat, Identity, ImportSource, Note, silent
from tests.plugins.stranger import write_distribution

from .conftest import Hub

TABLE = """
[[sources]]
source = "decks"
repository = "https://example.org/decks"
commit = "0123456789abcdef0123456789abcdef01234567"
license = "CC0-1.0"

[sources.items]
hearts = { about = "thirteen \\u001b[31mcards", tasks = 13 }
"""


class Decks:
    """An importer of a stranger's, whose table lies where its distribution is."""

    environment = None
    about = ForeignFormat(
        summary="Decks",
        item="deck",
        sources={"folder": "decks"},
        available=Path("available.toml"),
    )

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        return [Candidate(id="hearts")]

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = silent,
    ) -> Sequence[Path]:
        raise ConfigError("nothing is written here")


def test_each_row_names_its_format_licence_size_and_command(hub: Hub, tmp_path: Path) -> None:
    rows = {
        row["name"]: row for row in hub("list", "--available", "--json", XDG_CACHE_HOME=str(tmp_path)).json["available"]
    }
    gsm8k, mcqa = rows["gsm8k"], rows["mcqa"]
    assert (gsm8k["command"], gsm8k["tasks"], gsm8k["license"], gsm8k["bytes"]) == (
        "hub fetch gsm8k",
        8792,
        "MIT",
        4_915_944,
    )
    assert (gsm8k["format"], gsm8k["is_here"]) == ("benchmark", False)
    assert (mcqa["format"], mcqa["license"]) == ("nemo_gym", "Apache-2.0")
    assert shlex.split(mcqa["command"]) == ["hub", "import", "nemo_gym", "nemo-gym==0.7.0", "mcqa", "-o", "mcqa"]
    assert {"nemo_gym", "bfcl", "tau2", "textarena", "verifiers", "openenv"} <= {row["format"] for row in rows.values()}
    assert rows["reasoning_gym"]["command"].count("--set") == 2


def test_rows_are_found_by_name_format_and_licence(hub: Hub, tmp_path: Path) -> None:
    def found(*patterns: str) -> set[str]:
        return {row["name"] for row in hub("list", "--available", "--json", *patterns).json["available"]}

    assert found("aime*", "amc") == {"aime24", "amc"}
    assert found("tau2") == {"retail", "telecom", "banking_knowledge"}
    assert found("BSD-*") == found("openenv")
    shown = hub("list", "--available", "svamp")
    assert "hub fetch svamp" in shown.out
    assert shown.out.count("\n") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--available", "gsm8l"), "did you mean 'gsm8k'"),
        (("--available", "nemo-gim"), "did you mean 'nemo_gym'"),
        (("gsm8k",), "go with --available"),
    ],
)
def test_a_pattern_that_finds_nothing_is_met_with_the_nearest(words: tuple[str, ...], said: str, hub: Hub) -> None:
    assert said in hub("list", *words).refused()


def test_another_distributions_table_is_listed_and_drives_no_terminal(hub: Hub, tmp_path: Path) -> None:
    site = write_distribution(tmp_path / "site", IMPORTERS, "acme/decks", "tests.cli.test_available:Decks")
    (tmp_path / "available.toml").write_text(TABLE)
    given = {"PYTHONPATH": f"{site}:{Path(__file__).parents[2]}"}
    (row,) = hub("list", "--available", "hearts", "--json", **given).json["available"]
    clone, checkout, imported = row["command"].split(" && ")
    assert clone == "git clone -q https://example.org/decks decks"
    assert checkout.endswith("0123456789abcdef0123456789abcdef01234567")
    assert imported == "hub import acme/decks decks hearts -o hearts"
    assert "\x1b" not in hub("list", "--available", "hearts", **given).out


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (TABLE.replace("CC0-1.0", "free"), "sources.0.license"),
        (TABLE.replace("commit =", "branch ="), "sources.0.branch"),
        (TABLE.replace("tasks = 13", "tasks = 0"), "sources.0.items.hearts.tasks"),
        ("[[sources", "cannot be read"),
    ],
)
def test_a_damaged_table_is_named_with_its_place(table: str, said: str, hub: Hub, tmp_path: Path) -> None:
    site = write_distribution(tmp_path / "site", IMPORTERS, "acme/decks", "tests.cli.test_available:Decks")
    (tmp_path / "available.toml").write_text(table)
    refused = hub("list", "--available", PYTHONPATH=f"{site}:{Path(__file__).parents[2]}").refused()
    assert "available.toml" in refused
    assert said in refused
