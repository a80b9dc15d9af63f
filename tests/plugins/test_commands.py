"""The contract of commands: each explains itself and refuses what it does not know, whichever package it comes from."""

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from rollouthub.cli.main import app
from rollouthub.cli.overview import overview
from rollouthub.errors import UsageError

_ROOT: Any = get_command(app)


def every_command(group: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that help lists, with the words that call it."""
    for name, command in group.commands.items():
        if command.hidden:
            continue
        below = getattr(command, "commands", None)
        yield (*words, name), command
        if below is not None:
            yield from every_command(command, (*words, name))


COMMANDS = dict(sorted(every_command(_ROOT, ())))


def test_the_overview_names_every_command() -> None:
    shown = "\n".join(overview("hub"))
    assert [words[0] for words in COMMANDS if len(words) == 1 and words[0] not in shown] == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_and_each_of_its_options_are_explained(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    assert (command.help or "").strip().partition("\n")[0].rstrip().endswith((".", ":")), command.help
    context = command.make_context(words[-1], [], resilient_parsing=True)
    silent = [
        parameter.name
        for parameter in command.get_params(context)
        if not getattr(parameter, "hidden", False) and not getattr(parameter, "help", None)
    ]
    assert silent == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_unknown_option_is_refused_with_two(words: tuple[str, ...]) -> None:
    if hasattr(COMMANDS[words], "commands"):
        return  # what follows a group's name is the name of a command
    done = CliRunner().invoke(app, [*words, "--no-such-option"])
    refused = isinstance(done.exception, UsageError)  # `hub` ends with 2 then, too
    assert refused or done.exit_code == 2, done.output
    assert refused or "--no-such-option" in done.output
