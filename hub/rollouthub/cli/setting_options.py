"""Settings of a run as options of the command line: their declarations, and the settings that typed values make."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from rollouthub.cli.completion import completer
from rollouthub.cli.options import assignments
from rollouthub.errors import ConfigError
from rollouthub.settings import Setting

_OFF = "__off"


def parameters_of(settings: Iterable[Setting]) -> list[Any]:
    """The parameters of a command that takes these settings."""

    def command() -> None:
        pass

    declared = [parameter for setting in settings for parameter in _declared(setting)]
    command.__signature__ = inspect.Signature(declared)  # pyright: ignore[reportFunctionMemberAccess]  # typer reads it
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return list(typer.main.get_command(app).params)[: len(declared)]


def values_of(settings: Iterable[Setting], typed: Mapping[str, Any]) -> dict[str, Any]:
    """What was typed, as a tree of settings; what was not given is absent.

    Raises:
        ConfigError: a value cannot be read, or options contradict each other.
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
        elif given is None or given is False or given in ((), []):
            continue  # zero is given; a flag that is not set and an empty list are not
        else:
            value = _read(setting, given)
        branch = tree
        for step in setting.path[:-1]:
            branch = branch.setdefault(step, {})
        branch[setting.path[-1]] = value
    return tree


def _name(setting: Setting) -> str:
    return "__".join(setting.path)


def _declared(setting: Setting) -> list[inspect.Parameter]:
    """A setting's option, and the flag that empties it."""
    name, option = _name(setting), setting.option
    if not setting.flag.startswith("-"):
        return [
            _parameter(
                name, list[str], typer.Argument(metavar=setting.flag, help=_help(setting), **_completed(setting))
            )
        ]
    panel: dict[str, Any] = {"rich_help_panel": option.panel or None}
    flags = [option.short, setting.flag] if option.short else [setting.flag]
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
    kind = setting.option.names
    return {"autocompletion": completer(kind)} if kind else {}


def _help(setting: Setting, *, is_repeatable: bool = False) -> str:
    """Meaning and default; what looks like markup is shown as it is."""
    default = f" [default: {setting.default_text}]" if setting.default_text else ""
    return f"{setting.help}{' Repeatable.' if is_repeatable else ''}{default}".replace("[", "\\[")


def _parameter(name: str, kind: Any, declared: Any) -> inspect.Parameter:
    default, annotation = (False, kind) if kind is bool else (None, kind | None)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, declared]
    )


def _typed_as(setting: Setting) -> Any:
    """What the parser makes of the option's text; the rest is up to the setting's model."""
    if setting.is_a(tuple) or setting.is_a(dict):
        return list[str]
    plain = None if setting.option.read else next((kind for kind in (int, float) if setting.is_a(kind)), None)
    return plain or str


def _read(setting: Setting, given: Any) -> Any:
    option = setting.option
    if option.read is not None:
        return option.read(setting.flag, given)
    if setting.is_a(bool):
        return not setting.default
    return assignments(given, setting.flag) if setting.is_a(dict) else given
