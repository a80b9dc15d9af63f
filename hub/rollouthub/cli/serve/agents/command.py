"""`hub serve agents`: serves environments and a model to external agents at two URLs per episode."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from rollouthub.cli.options import ConfigField
from rollouthub.cli.serve.served_options import PLACE, AddressesAsJson, PlaneOptions
from rollouthub.cli.settings_command import SettingsCommand, given_options, given_settings
from rollouthub.settings import Option

_BOUNDS = "Bounds"


class ServeAgentsOptions(PlaneOptions):
    """Options of `hub serve agents`: addresses, and limits for agents and episodes."""

    practice: Annotated[bool, Option(panel=PLACE)] = Field(
        default=False, description="Also serve a fixed URL for trying each environment, unscored."
    )
    practice_split: Annotated[str | None, Option(panel=PLACE)] = Field(
        default=None, description="The split that practice uses; by default the first one that is not served."
    )
    ttl: Annotated[float, Option(panel=_BOUNDS)] = Field(
        default=3600.0, ge=1, description="Seconds after which an episode that was not ended is closed."
    )
    turn_timeout: Annotated[float, Option(panel=_BOUNDS)] = Field(
        default=600.0,
        gt=0,
        description="Seconds an agent may be silent where seats take turns; past that, it has left its seat.",
    )
    most_open: Annotated[int, Option("--max-open", panel=_BOUNDS)] = Field(
        default=1000, ge=1, description="Most episodes open at once."
    )
    rate: Annotated[float, Option(panel=_BOUNDS)] = Field(
        default=100.0, ge=0, description="Most requests per second of one agent, averaged over time; 0 is no limit."
    )
    config: ConfigField = None
    output: Annotated[Path | None, Option(short="-o")] = Field(
        default=None, description="The run's directory; runs/serve-TIME by default."
    )
    resume: bool = Field(
        default=False, description="Continue the run in -o; episodes that were open when it was killed are recorded."
    )
    as_json: AddressesAsJson = False


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
