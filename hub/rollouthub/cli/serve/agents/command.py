"""`hub serve agents`: environments and a model behind two URLs an episode, for agents of any make."""

from pathlib import Path
from typing import Annotated

import typer

from rollouthub.cli.options import ConfigOption
from rollouthub.cli.settings_command import SettingsCommand, given_settings

_PLACE, _BOUNDS = "Where", "Bounds"


class ServeAgentsCommand(SettingsCommand):
    """`hub serve agents`: the settings of a run whose agents act elsewhere."""

    taken = (
        "environments",
        "model",
        "base_url",
        "roles",
        "split",
        "seed",
        "set",
        "limit",
        "lane",
        "fallbacks",
        "requests_per_minute",
        "tokens_per_minute",
        "budget",
        "sampling",
        "limits",
        "deadlines",
        "in_process",
        "served",
        "metrics",
        "traces",
    )
    left_out = ("deadlines.agent", "deadlines.episode")
    """How long an agent may take is --ttl."""


def serve_agents(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on for agents.", rich_help_panel=_PLACE)] = ("127.0.0.1"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.", rich_help_panel=_PLACE)
    ] = 0,
    public_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="URL at which agents reach the hub, if it differs.", rich_help_panel=_PLACE),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="unix:PATH or HOST:PORT of the control plane; a private socket if unset.",
            rich_help_panel=_PLACE,
        ),
    ] = None,
    practice: Annotated[
        bool,
        typer.Option(
            "--practice", help="Also serve a fixed URL for trying each environment, unscored.", rich_help_panel=_PLACE
        ),
    ] = False,
    practice_split: Annotated[
        str | None,
        typer.Option(
            help="The split that practice uses; by default the first one that is not served.",
            rich_help_panel=_PLACE,
        ),
    ] = None,
    ttl: Annotated[
        float,
        typer.Option(
            min=1, help="Seconds after which an episode that was not ended is closed.", rich_help_panel=_BOUNDS
        ),
    ] = 3600.0,
    most_open: Annotated[
        int, typer.Option("--max-open", min=1, help="Most episodes open at once.", rich_help_panel=_BOUNDS)
    ] = 1000,
    rate: Annotated[
        float,
        typer.Option(
            min=0,
            help="Most requests per second of one agent, averaged over time; 0 is no limit.",
            rich_help_panel=_BOUNDS,
        ),
    ] = 100.0,
    config: ConfigOption = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The run's directory; runs/serve-TIME by default."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue the run in -o; episodes that were open when it was killed are recorded."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the addresses it serves on as one line of JSON.")
    ] = False,
) -> None:
    """Give agents an MCP URL and a model URL for each episode.

    Agents of any make play unmodified: everything they do is recorded, and every episode is scored.

    Episodes are opened over the control plane, whose credential is $ROLLOUTHUB_CONTROL_TOKEN, or a new one in a file
    that only you can read. An MCP app on this machine needs no server: see `hub connect`.

    Exit codes: 0 after SIGTERM, 1 a fault, 2 usage, 130 after Ctrl-C.
    """
    from rollouthub.cli.serve.agents.action import serve_command

    code = serve_command(
        given_settings(ctx),
        config,
        output,
        resume,
        as_json,
        host=host,
        port=port,
        public_url=public_url,
        control=control,
        ttl_seconds=ttl,
        most_open=most_open,
        rate=rate,
        practice=practice,
        practice_split=practice_split,
    )
    raise typer.Exit(code)
