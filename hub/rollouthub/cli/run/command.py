"""`hub run`: plays an environment's tasks and records the scored rollouts."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rollouthub.cli.lock_options import LockedOption, lock_file
from rollouthub.cli.options import BuildNetworkOption, ConfigOption, QuietOption, ResumeOption, build_network
from rollouthub.cli.settings_command import SettingsCommand, given_settings


class RunCommand(SettingsCommand):
    """`hub run`: every setting of a run is an option."""


@RunCommand.of
def run(
    ctx: typer.Context,
    build_network: BuildNetworkOption = None,
    config: ConfigOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="The run's directory; runs/ENV-AGENT-TIME by default.", rich_help_panel="Output"
        ),
    ] = None,
    resume: ResumeOption = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object on stdout instead of tables.", rich_help_panel="Output"),
    ] = False,
    locked: LockedOption = False,
    quiet: QuietOption = False,
) -> None:
    """Play an environment's tasks and keep the scored rollouts.

    Without -m and -a the oracle plays the reference solutions: a check of the environment, no model needed.

    Exit codes: 0 every rollout scored, 1 some unscored or not played, 2 usage, 130 interrupted.
    """
    from rollouthub.cli.run.action import run_command

    given = run_settings_of(ctx, build_network, is_locked=locked)
    code = run_command(given, config, output, resume, as_json, quiet)
    raise typer.Exit(code)


def run_settings_of(ctx: typer.Context, network: str | None, *, is_locked: bool) -> dict[str, Any]:
    """The given settings, with `--build-network` and `--locked` turned into settings.

    Raises:
        ConfigError: the network is unknown, or there is no lock file.
    """
    given = given_settings(ctx)
    if network is not None:
        given["set"] = {**given.get("set", {}), "build_network": build_network(network)}
    if is_locked and "lock" not in given:
        given["lock"] = str(lock_file(is_locked, None))
    return given
