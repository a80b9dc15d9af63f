"""Options shared by several commands, and the parsing of their values."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import Field

from rollouthub.errors import ConfigError
from rollouthub.settings import Option

QuietOption = Annotated[
    bool,
    typer.Option(
        "-q",
        "--quiet",
        help="Print nothing but warnings and errors, on stderr; with --json also its object.",
        rich_help_panel="Output",
    ),
]
RolesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--role", metavar="ROLE=MODEL", help="A model that the environment itself calls, by its role: judge=…"
    ),
]
WallOption = Annotated[
    Literal["auto", "container", "bubblewrap"],
    typer.Option(
        "--wall",
        metavar="auto|container|bubblewrap",
        help="The wall around an installed environment: a container if an engine answers, else bubblewrap.",
        rich_help_panel="Robustness",
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Trust its code with what you can read, and the network: it runs without a wall.",
        rich_help_panel="Robustness",
    ),
]
BuildNetworkOption = Annotated[
    str | None,
    typer.Option(
        "--build-network",
        metavar="none|bridge",
        help="Network that image builds can reach: bridge by default, none for installed environments.",
        rich_help_panel="Robustness",
    ),
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
ConfigField = Annotated[
    Path | None,
    Field(description="A TOML file (or a run's resolved.json) with these options; what is given here wins."),
]
JsonField = Annotated[bool, Option("--json"), Field(description="Print one JSON object.")]
QuietField = Annotated[
    bool,
    Option(short="-q", panel="Output"),
    Field(description="Print nothing but warnings and errors, on stderr; with --json also its object."),
]
RootField = Annotated[Path, Field(description="Where runs are kept.")]


def build_network(given: str) -> Literal["none", "bridge"]:
    """The network that `--build-network` names.

    Raises:
        ConfigError: neither `none` nor `bridge` was given.
    """
    if given == "none" or given == "bridge":
        return given
    raise ConfigError(f"--build-network {given!r} is no network of a build; say none or bridge")


def assignments(pairs: list[str], option: str) -> dict[str, Any]:
    """Parse `key=value` pairs: a JSON array, object, string or null is read as JSON, everything else as text.

    Raises:
        ConfigError: a pair has no `=`, or its JSON is broken.
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
