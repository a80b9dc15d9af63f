"""Old names of commands and options do what the present names do, and no help shows them."""

import re

import pytest

from rollouthub.cli.old_names import OLD_COMMANDS, in_present_names

from .conftest import Hub


@pytest.mark.parametrize("old", OLD_COMMANDS)
def test_an_old_command_is_the_present_one(hub: Hub, old: str) -> None:
    said, meant = hub(*old.split(), "--help"), hub(*OLD_COMMANDS[old].split(), "--help")
    assert (said.code, said.out) == (0, meant.out)
    assert re.search(rf"Usage: .* {OLD_COMMANDS[old]} \[OPTIONS\]", said.out)


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
