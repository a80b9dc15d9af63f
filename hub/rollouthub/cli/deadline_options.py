"""The deadlines of an episode as options, `--NAME-timeout`: written once, for every command that takes some of them."""

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import typer

_Command = TypeVar("_Command", bound=Callable[..., None])
_HELP = {
    "setup": "Setting an episode up: 90s, 15m, 2h (2m by default).",
    "model": "One call of a model (10m).",
    "tool": "One call of a tool (2m).",
    "agent": "All that the agent does in an episode (1h).",
    "verify": "Scoring an episode (5m).",
    "close": "Closing an episode (30s).",
    "episode": "A whole episode (90m, or its stages together).",
}
_FIELDS = {"model": "model_call", "tool": "tool_call"}
"""Of `Deadlines`, where they are called otherwise."""
DEADLINES = tuple(_HELP)


def takes_deadlines(*names: str) -> Callable[[_Command], _Command]:
    """Have a command take these deadlines as options; their texts come in its `**timeouts`.

    Typer reads the options from the signature that the command gets here.
    """

    def taking(command: _Command) -> _Command:
        signature = inspect.signature(command)
        own = [entry for entry in signature.parameters.values() if entry.kind is not entry.VAR_KEYWORD]
        parameters = [*own, *map(_parameter, names)]
        command.__signature__ = signature.replace(parameters=parameters)  # pyright: ignore[reportFunctionMemberAccess]
        return command

    return taking


def _parameter(name: str) -> inspect.Parameter:
    option = typer.Option(f"--{name}-timeout", metavar="TIME", help=_HELP[name], rich_help_panel="Deadlines")
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(f"{name}_timeout", kind, default=None, annotation=Annotated[str | None, option])


def deadlines_of(timeouts: Mapping[str, Any]) -> dict[str, float] | None:
    """The deadlines that were given, of options by the names of their parameters; None where none was.

    Raises:
        ConfigError: one is no time.
    """
    from rollouthub.limits import seconds_of

    found: dict[str, float] = {}
    for name in DEADLINES:
        if (given := timeouts.get(f"{name}_timeout")) is not None:
            found[_FIELDS.get(name, name)] = seconds_of(f"--{name}-timeout", given)
    return found or None
