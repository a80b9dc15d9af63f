"""The contract of commands: whatever the entry points name, and one that a stranger wrote."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from rollouthub.cli.command_group import COMMANDS, AllCommands
from rollouthub.cli.main import app
from rollouthub.cli.overview import PANELS
from rollouthub.errors import ConfigError, UsageError
from rollouthub.plugins.entry_points import shipped_plugins
from tests.plugins.stranger import register

STRANGER = "acme/greet"


def greet(
    name: Annotated[str, typer.Argument(help="Who is greeted.")],
    loud: Annotated[bool, typer.Option("--loud", help="Greet in capitals.")] = False,
) -> None:
    """Greet somebody: as somebody else would write a command, from Typer's manual alone."""
    text = f"hello, {name}"
    typer.echo(text.upper() if loud else text)


def every_command(group: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The words that call each command that is not hidden."""
    for name, command in group.commands.items():
        if command.hidden:
            continue
        yield (*words, name)
        if (below := commands_of(command)) is not None:
            yield from every_command(below, (*words, name))


def commands_of(command: Any) -> Any:
    """The command, if it is a group of commands; else None."""
    return command if hasattr(command, "commands") else None


@pytest.fixture(params=[*sorted(every_command(get_command(app), ())), (STRANGER,)], ids=" ".join)
def words(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """The words that call each command."""
    if request.param == (STRANGER,):
        register(tmp_path / "site", monkeypatch, COMMANDS, STRANGER, f"{__name__}:greet")
    return request.param


def found(words: tuple[str, ...]) -> Any:
    """The command that these words call."""
    command: Any = get_command(app)
    for word in words:
        command = command.commands[word]
    return command


def test_the_overview_names_every_command_of_the_hub() -> None:
    assert sorted(name for panel in PANELS.values() for name in panel) == sorted(shipped_plugins(COMMANDS))


def test_a_command_and_each_of_its_options_are_explained(words: tuple[str, ...]) -> None:
    command = found(words)
    assert (command.help or "").strip().partition("\n")[0].rstrip().endswith((".", ":")), command.help
    context = command.make_context(words[-1], [], resilient_parsing=True)
    silent = [
        parameter.name
        for parameter in command.get_params(context)
        if not getattr(parameter, "hidden", False) and not getattr(parameter, "help", None)
    ]
    assert silent == []


def test_an_unknown_option_is_refused_with_two(words: tuple[str, ...]) -> None:
    if commands_of(found(words)) is not None:
        return  # what follows a group's name is the name of a command
    done = CliRunner().invoke(app, [*words, "--no-such-option"])
    refused = isinstance(done.exception, UsageError)  # `hub` ends with 2 then, too
    assert refused or done.exit_code == 2, done.output
    assert refused or "--no-such-option" in done.output


def test_a_command_of_another_distribution_runs_as_the_hub_s_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(tmp_path / "site", monkeypatch, COMMANDS, STRANGER, f"{__name__}:greet")
    done = CliRunner().invoke(app, [STRANGER, "you", "--loud"])
    assert (done.exit_code, done.output) == (0, "HELLO, YOU\n")
    listed = CliRunner().invoke(app, ["list"]).output
    assert f"commands of others: {STRANGER} (hub NAME)" in listed


def test_a_command_of_the_hub_s_that_the_installation_lacks_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PANELS["Run"], "rehearse", "a command that newer code has")  # pyright: ignore[reportArgumentType]
    done = CliRunner().invoke(app, ["rehearse"])
    assert isinstance(done.exception, ConfigError)
    assert "knows no command 'rehearse'" in str(done.exception)
    assert AllCommands.entry_group == COMMANDS
