"""A package's folder plays and is checked as it lies there; what keeps it from being published is said early."""

from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub_registry.publish.console import Silent
from rollouthub_registry.publish.publication import PublishRequest, publish
from rollouthub_registry.publish.steps import Steps
from rollouthub_registry.scaffold.package import make_package
from tests.cli.conftest import Hub, hub  # pyright: ignore[reportUnusedImport]  # noqa: F401


def test_a_new_folder_plays_and_is_checked_as_it_lies_there(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    assert "./bills" in hub("new", "acme/bills").out
    made = hub("run", "./bills", "--limit", "2", "--json")
    assert (made.code, made.json["mean_reward"]) == (0, 1.0), made.err
    assert hub("check", "./bills", "--limit", "2").code == 0


def test_a_folder_is_served_from_its_source(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    hub("new", "acme/bills")
    made = hub("run", "bills/env.toml", "--served", "--limit", "1", "--json")
    assert (made.code, made.json["mean_reward"]) == (0, 1.0), made.err


def test_its_own_source_wins_and_nothing_else_of_the_folder_is_imported(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    make_package("acme/bills", tmp_path / "bills")
    source = tmp_path / "bills" / "src"
    for name in ("json", "anyio", "platform", "sqlite3"):
        (source / f"{name}.py").write_text("raise SystemExit('this must never run')\n")
    assert hub("run", "./bills", "--limit", "1", "-q").code == 0


def test_missing_dependencies_are_named_with_the_command(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    make_package("acme/bills", tmp_path / "bills")
    file = tmp_path / "bills" / "pyproject.toml"
    file.write_text(file.read_text().replace('["rollouthub"]', '["rollouthub", "no-such-package>=2", "pydantic<1"]'))
    said = hub("run", "./bills").refused()
    assert "'no-such-package>=2' (here is none), 'pydantic<1' (here is 2." in said
    assert "pip install 'no-such-package>=2' 'pydantic<1'" in said


def test_a_source_that_breaks_is_one_line(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    make_package("acme/bills", tmp_path / "bills")
    (tmp_path / "bills" / "src" / "bills.py").write_text("import no_such_module\n")
    said = hub("run", "./bills").refused()
    assert "bills.py could not be imported: " in said
    assert "no_such_module" in said


def test_a_name_without_a_namespace_is_told_where_it_ends(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    made = hub("new", "bills")
    assert "local/bills, which cannot be published" in made.err
    assert "hub new YOUR-NAMESPACE/bills" in made.err
    said = hub("publish", "./bills", "--registry", (tmp_path / "registry").as_uri()).refused()
    assert 'name = "YOUR-NAMESPACE/bills"' in said
    assert not (tmp_path / "registry").exists()
    assert hub("new", "acme/others").err == ""


class Noting(Silent):
    """Keeps what steps say."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def done(self, what: str, said: str, seconds: float) -> None:
        """Keep it."""
        self.said.append(said)


def test_publishing_names_what_the_author_forgot(tmp_path: Path) -> None:
    made = make_package("acme/shelves", tmp_path / "shelves", is_server=True)
    (tmp_path / "no-registry").mkdir()
    (tmp_path / "no-registry" / "mine.txt").write_text("mine")
    order, home = (
        PublishRequest(made.directory, (tmp_path / "no-registry").as_uri(), is_quick=True),
        {"HOME": str(tmp_path / "home")},
    )
    said = [publishing_says(order, home)]
    file = made.directory / "env.toml"
    file.write_text(file.read_text().replace("Someone <someone@example.org>", "Ann <ann@example.org>"))
    said.append(publishing_says(order, home))
    file.write_text(file.read_text().replace("Bring goods", "Bring other goods"))
    said.append(publishing_says(order, home))
    assert said == [
        "acme/shelves@0.1.0; still as `hub new` wrote it in env.toml: description, authors",
        "acme/shelves@0.1.0; still as `hub new` wrote it in env.toml: description",
        "acme/shelves@0.1.0",
    ]


def publishing_says(order: PublishRequest, home: dict[str, str]) -> str:
    """What the first step says; a later one finds no registry."""
    screen = Noting()
    with pytest.raises(ConfigError):
        publish(order, home, Steps(screen))
    return screen.said[0]
