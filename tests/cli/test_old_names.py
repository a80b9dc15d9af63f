"""Old names of commands and options do what the present names do, and no help shows them."""

import re
from pathlib import Path

import pytest

from rollouthub.cli.old_names import OLD_COMMANDS, OLD_OPTIONS, in_present_names

from .conftest import Hub


@pytest.mark.parametrize("old", OLD_COMMANDS)
def test_an_old_command_is_the_present_one(hub: Hub, old: str) -> None:
    said, meant = hub(*old.split(), "--help"), hub(*OLD_COMMANDS[old].split(), "--help")
    assert (said.code, said.out) == (0, meant.out)
    name = OLD_COMMANDS[old].removesuffix(" sandbox")  # an argument of `hub bench`
    assert re.search(rf"Usage: .* {name} \[OPTIONS\]", said.out)


@pytest.mark.parametrize("old", OLD_COMMANDS)
def test_no_help_lists_an_old_command(hub: Hub, old: str) -> None:
    *group, name = old.split()
    listing = hub(*group, "--help").out
    assert not re.search(rf"^\W*{name} ", listing, re.MULTILINE)


def test_an_old_command_takes_arguments_and_options(hub: Hub) -> None:
    assert hub("model", "ls", "--json").json == hub("model", "list", "--json").json
    assert "hub serve env arithmetic" in hub("serve-env").refused()


def test_what_follows_two_dashes_is_left_as_it_is() -> None:
    assert in_present_names(["model", "up", "m", "--", "model", "up"]) == ["serve", "model", "m", "--", "model", "up"]


OPTIONS = [(command, old, now) for command, options in OLD_OPTIONS.items() for old, now in options.items()]


@pytest.mark.parametrize(("command", "old", "now"), OPTIONS)
def test_an_old_option_is_the_present_one(hub: Hub, command: str, old: str, now: str) -> None:
    words = ["import", "mcp"] if command == "import" else command.split()
    shown = hub(*words, "--help").out
    assert re.search(rf"{now}\b", shown)
    assert not re.search(rf"{old}(?![\w-])", shown)
    assert in_present_names([*words, f"{old}=x", old, "y", "--", old]) == [*words, f"{now}=x", now, "y", "--", old]


@pytest.mark.parametrize(
    ("old", "now"),
    [
        ("trust", "trust list"),
        ("trust --json", "trust list --json"),
        ("trust lab", "trust list lab"),
        ("trust lab KEY OTHER --json", "trust add lab KEY OTHER --json"),
        ("trust lab --remove", "trust remove lab"),
        ("trust --forget lab --json", "trust remove lab --json"),
        ("live events runs/one --json", "live events --run runs/one --json"),
    ],
)
def test_a_command_line_from_before_its_verbs_is_the_present_one(old: str, now: str) -> None:
    assert in_present_names(old.split()) == in_present_names(now.split()) == now.split()


def test_an_old_command_line_does_what_the_present_one_does(hub: Hub, tmp_path: Path) -> None:
    own, key = {"XDG_CONFIG_HOME": str(tmp_path)}, "1" * 64
    assert hub("trust", "lab", key, **own).code == 0
    assert hub("trust", "list", "--json", **own).json == {"namespaces": {"lab": [key]}, "unwalled": {}}
    assert hub("trust", "lab", "--forget", **own).code == 0
    assert hub("trust", "--json", **own).json == {"namespaces": {}, "unwalled": {}}


def test_an_old_option_does_what_the_present_one_does(hub: Hub, tmp_path: Path) -> None:
    assert hub("new", "acme/one", "--dir", "here").code == 0
    assert hub("new", "acme/two", "-o", "there").code == 0
    assert (tmp_path / "here" / "pyproject.toml").is_file()
    assert (tmp_path / "there" / "pyproject.toml").is_file()
