"""Options are named alike over all commands: a short flag has one meaning, and an option takes one kind of value."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import typer

from rollouthub.cli.main import app

VALUES = {
    "--base-url": "`compare` plays several models, so that it has to be told which one a server has",
    "--by": "`note` is told who writes; `show` groups by a column",
    "--format": "of training files in `export`, of the page in `report`",
    "--lane": "`bench` measures lanes, also those that no model call takes; elsewhere a lane is chosen",
    "--namespace": "a registry is asked for patterns of namespaces; a token is for one",
    "--output": "what a command makes is a file or a folder, and some say which",
    "--seat": "`export` keeps one seat's conversation; elsewhere a seat is given to a model",
    "--sort": "`search` has orders, `show` columns",
    "--task": "one episode is of one task, and an export only knows the ids of what was played",
    "--workers": "`auto` follows the work of a run that is yet to start",
}
"""Option → why its value is written in several ways."""


def options(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every option of a command and of those below it, with the command's name."""
    for parameter in command.get_params(typer.Context(command)):
        if parameter.param_type_name == "option":
            yield " ".join(path), parameter
    for name, below in getattr(command, "commands", {}).items():
        yield from options(below, (*path, name))


def flags(parameter: Any) -> tuple[list[str], list[str]]:
    """An option's short flags, and its long ones."""
    names = [*parameter.opts, *parameter.secondary_opts]
    return [name for name in names if name[1] != "-"], [name for name in names if name[1] == "-"]


def test_a_short_flag_has_one_meaning_and_its_option_is_never_without_it() -> None:
    meanings: defaultdict[str, set[str]] = defaultdict(set)
    shortened: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for _, parameter in options(typer.main.get_command(app)):
        short, (name, *_) = flags(parameter)
        shortened[name].add(tuple(short))
        for flag in short:
            meanings[flag].add(name)
    assert {flag: names for flag, names in meanings.items() if len(names) > 1} == {}
    assert {name: found for name, found in shortened.items() if len(found) > 1} == {}


def test_an_option_takes_the_same_kind_of_value_in_every_command() -> None:
    kinds: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for command, parameter in options(typer.main.get_command(app)):
        for name in flags(parameter)[1]:
            kinds[name]["" if parameter.is_flag else parameter.metavar or "VALUE"].append(command)
    assert {name: dict(kind) for name, kind in kinds.items() if len(kind) > 1 and name not in VALUES} == {}
    assert [name for name in VALUES if len(kinds[name]) < 2] == []


def test_a_time_is_given_with_its_unit_in_every_command() -> None:
    times = {
        (command, name): parameter.metavar
        for command, parameter in options(typer.main.get_command(app))
        for name in flags(parameter)[1]
        if name.endswith(("-timeout", "-seconds", "-time", "-ttl", "--ttl", "--timeout"))
    }
    assert len(times) > 20
    assert {place: kind for place, kind in times.items() if kind != "TIME"} == {}
