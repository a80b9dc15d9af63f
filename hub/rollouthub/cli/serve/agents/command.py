"""`hub serve agents`: serves environments and a model to external agents at two URLs per episode."""

import typer

from rollouthub.cli.serve.agents.agents_options import ServeAgentsOptions
from rollouthub.cli.settings_command import SettingsCommand, given_options, given_settings


class ServeAgentsCommand(SettingsCommand):
    """`hub serve agents`: takes the run settings that apply to external agents."""

    options = ServeAgentsOptions
    taken = (
        "environments",
        "model",
        "base_url",
        "roles",
        "seats",
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
        "wall",
        "trust",
        "metrics",
        "traces",
    )
    left_out = ("deadlines.agent", "deadlines.episode")
    """Settings that are not offered, because --ttl sets an agent's time."""


@ServeAgentsCommand.of
def serve_agents(ctx: typer.Context) -> None:
    """Give agents an MCP URL and a model URL for each episode.

    Agents of any make play unmodified: everything they do is recorded, and every episode is scored.

    Episodes are opened over the control plane, whose credential is $ROLLOUTHUB_CONTROL_TOKEN, or a new one in a file
    that only you can read. An MCP app on this machine needs no server: see `hub connect`.

    Exit codes: 0 after SIGTERM, 1 a fault, 2 usage, 130 after Ctrl-C.
    """
    from rollouthub.cli.serve.agents.action import serve_command

    raise typer.Exit(serve_command(given_settings(ctx), given_options(ctx, ServeAgentsOptions)))
