"""Declares run settings as command-line options, and turns the typed values back into settings."""

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rollouthub.cli.completion import among, completer
from rollouthub.cli.options import assignments
from rollouthub.errors import ConfigError
from rollouthub.settings import Setting

_OFF = "__off"


def parameters_of(settings: Iterable[Setting]) -> list[Any]:
    """The click parameters for these settings."""

    def command() -> None:
        pass

    declared = [parameter for setting in settings for parameter in _declared(setting)]
    command.__signature__ = inspect.Signature(declared)  # pyright: ignore[reportFunctionMemberAccess]  # typer reads it
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return list(typer.main.get_command(app).params)[: len(declared)]


def values_of(settings: Iterable[Setting], typed: Mapping[str, Any]) -> dict[str, Any]:
    """The typed values as a tree of settings, without those that were not given.

    Raises:
        ConfigError: a value is invalid, or options contradict each other.
    """
    tree: dict[str, Any] = {}
    for setting in settings:
        given, is_off = typed.get(_name(setting)), bool(typed.get(_name(setting) + _OFF))
        if is_off and given:
            raise ConfigError(
                f"{setting.flag} {given[0]} and {setting.option.off} contradict each other; give one of them"
            )
        if is_off:
            value: Any = ()
        elif given is None or (given is False and not setting.is_pair) or given in ((), []):
            continue  # zero is given; a flag that is not set and an empty list are not
        else:
            value = _read(setting, given)
        branch = tree
        for step in setting.path[:-1]:
            branch = branch.setdefault(step, {})
        branch[setting.path[-1]] = value
    return tree


def words_of(settings: Iterable[Setting], typed: Mapping[str, Any]) -> list[str]:
    """The typed options and their values as words of a command line, without boolean flags."""
    words: list[str] = []
    for setting in settings:
        given: Any = typed.get(_name(setting))
        if given is not None and not setting.is_a(bool):
            words += [
                word for text in (given if setting.is_repeatable else (given,)) for word in (setting.flag, str(text))
            ]
    return words


def _name(setting: Setting) -> str:
    return "__".join(setting.path)


def _declared(setting: Setting) -> list[inspect.Parameter]:
    """The parameters for a setting: its option or argument, and the flag that empties it if it has one."""
    name, option = _name(setting), setting.option
    if not setting.flag.startswith("-"):
        return [
            _parameter(
                name, list[str], typer.Argument(metavar=setting.flag, help=_help(setting), **_completed(setting))
            )
        ]
    panel: dict[str, Any] = {"rich_help_panel": option.panel or None}
    flags = [option.short, setting.flag] if option.short else [setting.flag]
    if setting.is_pair:
        return [_parameter(name, bool | None, typer.Option(*flags, help=_help(setting), **panel))]
    if setting.is_a(bool):
        flags = [f"--no-{setting.flag[2:]}"] if setting.default else flags
        return [_parameter(name, bool, typer.Option(*flags, help=_help(setting), **panel))]
    kind = _typed_as(setting)
    declared = typer.Option(
        *flags,
        metavar=option.metavar or "|".join(setting.choices) or None,
        help=_help(setting, is_repeatable=kind == list[str]),
        min=(setting.above if setting.least is None else setting.least) if kind in (int, float) else None,
        max=setting.most if kind in (int, float) else None,
        **panel,
        **_completed(setting),
    )
    found = [_parameter(name, kind, declared)]
    if option.off:
        found.append(_parameter(name + _OFF, bool, typer.Option(option.off, help=option.off_help, **panel)))
    return found


def _completed(setting: Setting) -> dict[str, Any]:
    if kind := setting.option.names:
        return {"autocompletion": completer(kind)}
    return {"autocompletion": among(setting.choices)} if setting.choices else {}


def _help(setting: Setting, *, is_repeatable: bool = False) -> str:
    """The help text of a setting: its meaning and default, escaped so that brackets are not read as markup."""
    default = f" [default: {setting.default_text}]" if setting.default_text else ""
    return f"{setting.help}{' Repeatable.' if is_repeatable else ''}{default}".replace("[", "\\[")


def _parameter(name: str, kind: Any, declared: Any) -> inspect.Parameter:
    default, annotation = (False, kind) if kind is bool else (None, kind | None)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, declared]
    )


def _typed_as(setting: Setting) -> Any:
    """The type to which the parser converts the option's text; further checks are left to the setting's model."""
    if setting.is_repeatable:
        return list[str]
    plain = None if setting.option.read else next((kind for kind in (int, float, Path) if setting.is_a(kind)), None)
    return plain or str


def _read(setting: Setting, given: Any) -> Any:
    option = setting.option
    if option.read is not None:
        return option.read(setting.flag, given)
    if setting.is_a(bool):
        return given if setting.is_pair else not setting.default
    return assignments(given, setting.flag) if setting.is_a(dict) else given
