"""Options that several commands take and mean the same by, and what becomes of their values."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rollouthub.engine.task_names import read_names
from rollouthub.errors import ConfigError

QuietOption = Annotated[
    bool,
    typer.Option(
        "-q",
        "--quiet",
        help="Print nothing but warnings and errors, on stderr; with --json also its object.",
        rich_help_panel="Output",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option("-m", "--model", help="The model, by litellm's name: hosted_vllm/NAME, gpt-4o, mock/solver …"),
]
BaseUrlOption = Annotated[
    list[str] | None,
    typer.Option(
        help="The model server's address; repeat it for replicas. Else HOSTED_VLLM_API_BASE or OPENAI_BASE_URL."
    ),
]
RoleOption = Annotated[
    list[str] | None,
    typer.Option(metavar="ROLE=MODEL", help="A model that the environment itself calls, by its role: judge=gpt-4o."),
]
SeedOption = Annotated[int | None, typer.Option(help="Seeds tasks and episodes, and the model's sampling.")]
BuildNetworkOption = Annotated[
    str | None,
    typer.Option(
        "--build-network",
        metavar="none|bridge",
        help="Network that image builds can reach: bridge by default, none for installed environments.",
        rich_help_panel="Robustness",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="An environment's setting; ENV.KEY for one of several."),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(help="A TOML file (or a run's resolved.json) with these options; what is given here wins."),
]
ResumeOption = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Continue the run in -o: finished rollouts stay, those that ended in a fault are tried again.",
        rich_help_panel="Output",
    ),
]
LaneOption = Annotated[
    str | None,
    typer.Option(
        metavar="direct|litellm|tokens",
        help="The client that makes model calls; chosen by the model's name by default.",
        rich_help_panel="Models",
    ),
]
MaxTurnsOption = Annotated[
    int | None, typer.Option(min=1, help="Limit: responses in an episode.", rich_help_panel="Limits")
]
MaxSecondsOption = Annotated[
    float | None, typer.Option(min=0.001, help="Limit: wall time of the agent.", rich_help_panel="Limits")
]
TracesOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="An OTLP collector that takes traces, such as http://127.0.0.1:4318.",
        rich_help_panel="Output",
    ),
]


def run_settings(**given: Any) -> dict[str, Any]:
    """Options as settings of a `RunRequest`: pairs taken apart, and what was not given left out.

    Raises:
        ConfigError: a pair is none.
    """
    from rollouthub.models.config import roles_of

    given["roles"] = roles_of("--role", given.get("roles") or []) or None
    given["tasks"] = read_names(given.get("tasks") or [], Path.cwd(), "--task")
    for name, option in (("set", "--set"), ("agent_set", "--agent-set")):
        given[name] = assignments(given.get(name) or [], option) or None
    # Zero is given, an unset flag and an empty list are not.
    return {name: value for name, value in given.items() if value is not None and value is not False and value != []}


def build_network(given: str) -> Literal["none", "bridge"]:
    """What `--build-network` says.

    Raises:
        ConfigError: it is no network.
    """
    if given == "none" or given == "bridge":
        return given
    raise ConfigError(f"--build-network {given!r} is no network of a build; say none or bridge")


def some(**values: Any) -> dict[str, Any] | None:
    """What was given of these; None where nothing was."""
    return {key: value for key, value in values.items() if value is not None} or None


def assignments(pairs: list[str], option: str) -> dict[str, Any]:
    """`key=value` pairs; a value that is a JSON array, object, string or null is read as that, all else as text.

    Raises:
        ConfigError: a pair without `=`, or broken JSON.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"{option} {pair!r} is not KEY=VALUE")
        if value == "null" or value[:1] in ("[", "{", '"'):
            try:
                found[key] = json.loads(value)
            except ValueError as error:
                raise ConfigError(f"{option} {key}: {value!r} looks like JSON, but {error}") from None
        else:
            found[key] = value
    return found
